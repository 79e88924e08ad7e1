/** A quarter of the time at most is spent on reading. */
export const SHARE = 4;

/** Answers one question again and again as the installation changes. What is being read is read to its end, however fast news come; the next
 * reading begins `every` milliseconds after the last one began, and so late that reading takes one part in `share` of the time at most.
 * The first one begins at `due`, a time in milliseconds, or now. */
export class Reading {
  #ending = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #busy = false;
  #stale = false;

  constructor(
    private read: (signal: AbortSignal) => Promise<void>,
    private every: number,
    private share = SHARE,
    private due = 0,
  ) {}

  /** Something has changed: what was read before may be out of date. */
  notice(): void {
    this.#stale = true;
    if (this.#busy || this.#timer !== undefined) return;
    this.#timer = setTimeout(() => void this.#begin(), Math.max(0, this.due - Date.now()));
  }

  /** The question is asked no longer. */
  end(): void {
    clearTimeout(this.#timer);
    this.#ending.abort();
  }

  async #begin(): Promise<void> {
    this.#timer = undefined;
    this.#stale = false;
    this.#busy = true;
    const began = Date.now();
    await this.read(this.#ending.signal);
    this.#busy = false;
    this.due = began + Math.max(this.every, this.share * (Date.now() - began));
    if (this.#stale && !this.#ending.signal.aborted) this.notice();
  }
}
