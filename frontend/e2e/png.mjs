// Writes a picture of a screen with at most 256 colours: a third of the bytes, and nobody sees it.
import { deflateSync, inflateSync, crc32 } from "node:zlib";

const SIGNATURE = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** thin returns a PNG of 8 bits a channel as one with a palette. */
export function thin(png) {
  const { width, height, pixels } = decode(png);
  const { palette, indices } = quantise(pixels);
  const rows = Buffer.alloc(height * (width + 1)); // each begins with its filter: none
  for (let y = 0; y < height; y++) rows.set(indices.subarray(y * width, (y + 1) * width), y * (width + 1) + 1);
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  const small = Buffer.concat([SIGNATURE, chunk("IHDR", head), chunk("PLTE", Buffer.from(palette)), chunk("IDAT", deflateSync(rows, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
  return small.length < png.length ? small : png;
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data]);
  const out = Buffer.alloc(body.length + 8);
  out.writeUInt32BE(data.length, 0);
  body.copy(out, 4);
  out.writeUInt32BE(crc32(body), body.length + 4);
  return out;
}

/** decode reads what Chromium writes: 8 bits a channel, RGB or RGBA, not interlaced. */
function decode(png) {
  const parts = [];
  let width = 0;
  let height = 0;
  let channels = 0;
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    const type = png.toString("latin1", at + 4, at + 8);
    const data = png.subarray(at + 8, at + 8 + length);
    if (type === "IHDR") {
      width = data.readUInt32BE(0);
      height = data.readUInt32BE(4);
      channels = { 2: 3, 6: 4 }[data[9]];
      if (data[8] !== 8 || !channels || data[12] !== 0) throw new Error("this kind of PNG is not read here");
    }
    if (type === "IDAT") parts.push(data);
    at += length + 12;
  }
  const raw = inflateSync(Buffer.concat(parts));
  const stride = width * channels;
  const out = new Uint8Array(height * stride);
  for (let y = 0; y < height; y++) {
    const filter = raw[y * (stride + 1)];
    for (let x = 0; x < stride; x++) {
      const at = y * stride + x;
      const left = x >= channels ? out[at - channels] : 0;
      const up = y > 0 ? out[at - stride] : 0;
      const corner = x >= channels && y > 0 ? out[at - stride - channels] : 0;
      const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
      out[at] = raw[y * (stride + 1) + 1 + x] + guess;
    }
  }
  const pixels = new Uint32Array(width * height);
  for (let i = 0; i < pixels.length; i++) pixels[i] = (out[i * channels] << 16) | (out[i * channels + 1] << 8) | out[i * channels + 2];
  return { width, height, pixels };
}

function paeth(a, b, c) {
  const p = a + b - c;
  const [pa, pb, pc] = [Math.abs(p - a), Math.abs(p - b), Math.abs(p - c)];
  if (pa <= pb && pa <= pc) return a;
  return pb <= pc ? b : c;
}

/** How many of the colours that are seen most are kept as they are. */
const EXACT = 32;

/**
 * quantise keeps the colours that are seen most, and so many of the others that each is close to one that is
 * kept: also what is small and rare, as the red of one icon, stays red.
 */
function quantise(pixels) {
  const seen = new Map();
  for (const p of pixels) seen.set(p, (seen.get(p) ?? 0) + 1);
  const colours = [...seen].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([c]) => c);
  let kept = colours.slice(0, 256);
  for (let reach = 16; colours.length > 256; reach *= 1.5) {
    kept = cover(colours, reach);
    if (kept.length <= 256) break;
  }
  const nearest = new Map(colours.map((c) => [c, closest(kept, c).at]));
  return { palette: kept.flatMap((c) => [c >> 16, (c >> 8) & 255, c & 255]), indices: Uint8Array.from(pixels, (p) => nearest.get(p)) };
}

/** cover returns colours such that each is within reach of one of them, or a few too many to be of use. */
function cover(colours, reach) {
  const kept = colours.slice(0, EXACT);
  for (const c of colours.slice(EXACT)) {
    if (closest(kept, c).distance > reach) kept.push(c);
    if (kept.length > 256) break;
  }
  return kept;
}

function closest(kept, c) {
  let at = 0;
  let distance = Infinity;
  for (let k = 0; k < kept.length && distance > 0; k++) {
    const r = ((c >> 16) & 255) - ((kept[k] >> 16) & 255);
    const g = ((c >> 8) & 255) - ((kept[k] >> 8) & 255);
    const b = (c & 255) - (kept[k] & 255);
    const d = 2 * r * r + 4 * g * g + 3 * b * b;
    if (d < distance) [distance, at] = [d, k];
  }
  return { at, distance };
}
