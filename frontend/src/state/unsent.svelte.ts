/** Unsent is what a person typed and has not sent, by where it is to go: a session's next message, or the answer to a call of it. It goes with the page. */
export class Unsent {
  private texts = $state<Record<string, string>>({});

  of(session: string, call = ""): string {
    return this.texts[`${session} ${call}`] ?? "";
  }

  write(text: string, session: string, call = ""): void {
    if (text) this.texts[`${session} ${call}`] = text;
    else delete this.texts[`${session} ${call}`];
  }

  /** sent forgets a text that has gone; what was written behind it meanwhile stays. */
  sent(text: string, session: string, call = ""): void {
    const now = this.of(session, call);
    if (now.startsWith(text)) this.write(now.slice(text.length), session, call);
  }
}
