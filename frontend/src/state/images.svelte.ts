import { ApiError, type Client, messageOf } from "../api/client";
import type { Build, Frame, ImageInfo, Recipe } from "../api/types.gen";

/** The images that Glovebox has recipes for, by the recipes' names: one to look around in, and one with a browser. */
export const TINY = "tiny";
export const STANDARD = "standard";

/** fullRef writes a reference out: "debian" is "docker.io/library/debian:latest". */
export function fullRef(ref: string): string {
  let name = ref.trim();
  let digest = "";
  const at = name.indexOf("@");
  if (at >= 0) [name, digest] = [name.slice(0, at), name.slice(at)];
  const slash = name.lastIndexOf("/");
  const colon = name.indexOf(":", slash + 1);
  const tag = colon >= 0 ? name.slice(colon) : digest ? "" : ":latest";
  if (colon >= 0) name = name.slice(0, colon);
  const parts = name.split("/");
  const first = parts[0] ?? "";
  // The first part is a registry when it looks like a host.
  const hasHost = parts.length > 1 && (/[.:]/.test(first) || first === "localhost");
  if (!hasHost) parts.unshift("docker.io");
  if (parts[0] === "index.docker.io") parts[0] = "docker.io";
  if (parts[0] === "docker.io" && parts.length === 2) parts.splice(1, 0, "library");
  return parts.join("/") + tag + digest;
}

/** findImage returns the image that a reference, or a part of an id, means. */
export function findImage(ref: string, images: readonly ImageInfo[]): ImageInfo | undefined {
  const text = ref.trim();
  if (!text) return undefined;
  const full = fullRef(text);
  const byName = images.find((i) => fullRef(i.ref) === full);
  if (byName) return byName;
  const id = text.replace(/^sha256:/, "").toLowerCase();
  if (!/^[0-9a-f]{4,64}$/.test(id)) return undefined;
  return images.find((i) => id.startsWith(i.id) || i.id.startsWith(id));
}

/** pick returns the images that hold every word of a search: the default one first, then those of Glovebox. */
export function pick(images: readonly ImageInfo[], search: string, usual: string): ImageInfo[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const rank = (i: ImageInfo): number => (i.ref === usual ? 0 : i.ours ? 1 : 2);
  return images
    .filter((i) => words.every((w) => i.ref.toLowerCase().includes(w) || i.id.startsWith(w)))
    .toSorted((a, b) => rank(a) - rank(b));
}

/** Images are those of the engine, and what is being built. */
export class Images {
  list = $state.raw<ImageInfo[] | null>(null);
  recipes = $state.raw<readonly Recipe[]>([]);
  /** usual is the image of a session that names none. */
  usual = $state("");
  /** error says why the list could not be read. */
  error = $state("");
  loading = $state(false);
  builds = $state.raw<Record<string, Build>>({});
  /** pulls are the images that come from a registry, by their names as they were asked for. */
  pulls = $state.raw<Record<string, Build>>({});
  /** refused says why a build or a pull was not even begun, by image. */
  refused = $state.raw<Record<string, string>>({});
  private readonly ends = new Set<(b: Build) => void>();

  constructor(private readonly client: () => Client) {}

  get isBuilding(): boolean {
    return [...Object.values(this.builds), ...Object.values(this.pulls)].some((b) => b.state === "running");
  }

  /** recipe returns the recipe by which an image can be built here. */
  recipe(ref: string): Recipe | undefined {
    const full = fullRef(ref);
    return this.recipes.find((r) => fullRef(r.ref) === full);
  }

  /** lacks says that the engine is known not to have the image of a recipe. */
  lacks(name: string): boolean {
    return this.error === "" && this.recipes.some((r) => r.name === name && !r.there);
  }

  async load(): Promise<void> {
    if (this.loading) return;
    this.loading = true;
    try {
      const found = await this.client().images();
      this.list = found.images ?? [];
      this.recipes = found.recipes ?? [];
      this.usual = found.default || this.usual;
      this.error = found.error;
      for (const b of found.builds ?? []) this.apply(b);
    } catch (err) {
      this.error = messageOf(err);
    } finally {
      this.loading = false;
    }
  }

  /** take hears the frames of the events socket. */
  take(f: Frame): void {
    if (f.type === "build" && f.build) this.apply(f.build);
  }

  build = (image: string): Promise<void> => this.begin(image, () => this.client().build(image));
  pull = (image: string): Promise<void> => this.begin(image, () => this.client().pull(image));

  async cancel(image: string): Promise<void> {
    try {
      const ended = await this.client().cancelBuild(image);
      if (isBuild(ended)) this.apply(ended);
    } catch (err) {
      // It may have ended by itself just before: the list tells.
      if (!(err instanceof ApiError) || err.status === 0) this.refused = { ...this.refused, [image]: String(err) };
      await this.load();
    }
  }

  async cancelPull(image: string): Promise<void> {
    try {
      const ended = await this.client().cancelPull(image);
      if (isBuild(ended)) this.apply(ended);
    } catch {
      await this.load(); // it may have ended by itself just before: the list tells
    }
  }

  /** made builds an image and returns its end; it throws where none is begun. */
  async made(image: string): Promise<Build> {
    const ended = new Promise<Build>((done) => {
      const hear = (b: Build): void => {
        if (b.image !== image || b.state === "running") return;
        this.ends.delete(hear);
        done(b);
      };
      this.ends.add(hear);
    });
    await this.build(image);
    const why = this.refused[image];
    if (why) throw new ApiError(0, "image", why);
    return ended;
  }

  private async begin(image: string, ask: () => Promise<unknown>): Promise<void> {
    this.refused = { ...this.refused, [image]: "" };
    try {
      const begun = await ask();
      if (isBuild(begun)) this.apply(begun);
    } catch (err) {
      this.refused = { ...this.refused, [image]: messageOf(err) };
    }
  }

  private apply(b: Build): void {
    const isPull = b.kind === "pull";
    const before = (isPull ? this.pulls : this.builds)[b.image];
    // An answer may come after a frame that is younger.
    if (before && before.started_at > b.started_at) return;
    if (before && before.started_at === b.started_at && before.ended_at && !b.ended_at) return;
    if (isPull) this.pulls = { ...this.pulls, [b.image]: b };
    else this.builds = { ...this.builds, [b.image]: b };
    if (before?.ended_at && before.started_at === b.started_at) return;
    if (!isPull) for (const hear of this.ends) hear(b);
    if (b.state === "done") void this.load();
  }
}

function isBuild(value: unknown): value is Build {
  return typeof value === "object" && value !== null && "state" in value && "image" in value;
}
