/** Match says how well a text fits, and which of its letters did. */
export interface Match {
  score: number;
  at: number[];
}

/**
 * match finds the letters of a query in a text, in their order. Letters at the
 * start of a word and letters side by side count more; null when one is missing.
 */
export function match(query: string, text: string): Match | null {
  const want = query.toLowerCase().replace(/\s+/g, "");
  const have = text.toLowerCase();
  let best: Match | null = null;
  // The first letter may stand in several places; the best start wins.
  for (let from = have.indexOf(want[0] ?? ""); from >= 0; from = have.indexOf(want[0] ?? "", from + 1)) {
    const found = matchFrom(want, have, from);
    if (!found) break;
    if (!best || found.score > best.score) best = found;
    if (!want) break;
  }
  return best;
}

function matchFrom(want: string, have: string, from: number): Match | null {
  const at: number[] = [];
  let score = 0;
  let next = from;
  for (const letter of want) {
    // The start of a word is worth a jump, when the letters before it were found.
    const near = have.indexOf(letter, next);
    if (near < 0) return null;
    const word = wordStart(have, letter, near);
    const place = near === next && at.length > 0 ? near : word >= 0 && word - near < 24 ? word : near;
    score += place === next && at.length > 0 ? 3 : isStart(have, place) ? 4 : 1;
    at.push(place);
    next = place + 1;
  }
  return { score: score - from / 50 - have.length / 500, at };
}

function wordStart(have: string, letter: string, from: number): number {
  for (let i = from; i >= 0; i = have.indexOf(letter, i + 1)) {
    if (isStart(have, i)) return i;
  }
  return -1;
}

function isStart(text: string, i: number): boolean {
  return i === 0 || /[^\p{L}\p{N}]/u.test(text[i - 1] ?? " ");
}

/** pieces cuts a text into what matched and what did not, to mark it. */
export function pieces(text: string, at: readonly number[]): { text: string; hit: boolean }[] {
  const list: { text: string; hit: boolean }[] = [];
  const hits = new Set(at);
  for (let i = 0; i < text.length; i++) {
    const hit = hits.has(i);
    const last = list.at(-1);
    if (last && last.hit === hit) last.text += text[i];
    else list.push({ text: text[i] ?? "", hit });
  }
  return list;
}
