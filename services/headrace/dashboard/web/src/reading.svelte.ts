import { untrack } from "svelte";
import { Reading, SHARE } from "./reading";

/** Milliseconds from one question to the next: while the time bar is dragged every moment is another one. */
const APART = 250;

/** Reads now, and again when `news` has changed; anew when `question`, plain values, is another, which ends what was being read for the one before.
 * `every`, `share`: see `Reading`. `read` says itself what went wrong. */
export function reading(question: () => unknown, news: () => unknown, every: number, read: (signal: AbortSignal) => Promise<void>, share = SHARE): void {
  let last = 0;
  const asked = $derived(JSON.stringify(question())); // what it is made of may change without it
  $effect(() => {
    void asked;
    const answers = new Reading(
      (signal) => {
        last = Date.now();
        return read(signal);
      },
      every,
      share,
      last + APART,
    );
    $effect(() => {
      void news();
      untrack(() => answers.notice());
    });
    return () => answers.end();
  });
}
