import { messageOf } from "../api/client";
import type { Check, Doctor } from "../api/types.gen";

const DISMISSED = "glovebox.doctor.dismissed";

/** Health is what the checks found, and when. */
export class Health {
  doctor = $state.raw<Doctor | null>(null);
  /** at is when they ran, in milliseconds since the epoch. */
  at = $state(0);
  busy = $state(false);
  error = $state("");
  private dismissed = $state("");

  constructor(private readonly storage: Pick<Storage, "getItem" | "setItem">) {
    this.dismissed = storage.getItem(DISMISSED) ?? "";
  }

  /** faults are what needs a look; what is only worth knowing is on the page of all checks. */
  get faults(): Check[] {
    return (this.doctor?.checks ?? []).filter((c) => c.status === "warn" || c.status === "fail");
  }

  /** mends says that a check waits for an image to be built. */
  mends(recipe: string): boolean {
    return (this.doctor?.checks ?? []).some((c) => c.recipe === recipe);
  }

  get isDismissed(): boolean {
    return this.dismissed === this.key;
  }

  /** dismiss puts the faults out of sight until they are others. */
  dismiss(): void {
    this.dismissed = this.key;
    this.storage.setItem(DISMISSED, this.key);
  }

  async run(check: () => Promise<Doctor>): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    try {
      this.doctor = await check();
      this.at = Date.now();
      this.error = "";
    } catch (err) {
      this.error = messageOf(err);
      throw err;
    } finally {
      this.busy = false;
    }
  }

  private get key(): string {
    return this.faults.map((c) => `${c.name} ${c.status} ${c.fix}`).join("\n");
  }
}
