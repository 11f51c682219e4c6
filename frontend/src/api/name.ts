/** randomName names something for good. A page that came over plain HTTP from elsewhere has no crypto.randomUUID. */
export function randomName(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");
}
