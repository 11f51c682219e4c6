/** How long, in milliseconds, is waited before a part is asked for once more. */
const PAUSES = [200, 1000];

/**
 * arrival fetches a part of the page that is a file of its own. A browser breaks its fetches off whenever a
 * container comes or goes with a network interface of its own, so one that fails is tried again, twice.
 */
export async function arrival<T>(fetch: () => Promise<T>): Promise<T> {
  for (const pause of PAUSES) {
    try {
      return await fetch();
    } catch {
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
  return fetch();
}
