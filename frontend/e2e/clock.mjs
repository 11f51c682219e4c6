// The time of the canned server. MOCK_NOW stops it, so that what is pictured is the same each time.
const stopped = Date.parse(process.env.MOCK_NOW ?? "");

export const isStopped = !Number.isNaN(stopped);
export const now = () => (isStopped ? stopped : Date.now());
export const stamp = (ms = now()) => new Date(ms).toISOString();
export const ago = (seconds) => stamp(now() - seconds * 1000);
