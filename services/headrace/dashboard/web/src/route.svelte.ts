// The screen in the address: `#/jobs/acme/01j…@1234` is a screen, its parts, and the record that is shown.

import { app } from "./app.svelte";

class Route {
  screen = $state("now");
  parts = $state.raw<string[]>([]);

  read(): void {
    const [path = "", at = ""] = location.hash.replace(/^#\/?/, "").split("@");
    const [screen, ...parts] = path.split("/").map(decodeURIComponent);
    this.screen = screen || "now";
    this.parts = parts;
    const sequence = Number(at) || 0;
    if (sequence !== app.at) void app.show(sequence);
  }

  /** Address of a screen at the moment that is shown. */
  to(...parts: string[]): string {
    return "#/" + parts.map(encodeURIComponent).join("/") + (app.at ? `@${app.at}` : "");
  }

  go(...parts: string[]): void {
    location.hash = this.to(...parts);
  }

  /** Puts the record that is shown into the address, so that a link leads to it. */
  mark(): void {
    history.replaceState(null, "", location.pathname + this.to(this.screen, ...this.parts));
  }
}

export const route = new Route();
