// The state of the page: who is logged in, the live overview, the moment that is shown, and what happens.

import { ApiError, get, setToken, stream, token, tokenFromAddress } from "./api";
import { modelOf, type Model } from "./model";
import type { Change, Event, Loads, Overview } from "./types";

const EVENTS_KEPT = 500;
const RETRY_FIRST = 500;
const RETRY_LAST = 10_000;

interface Caller {
  role: string;
  tenant?: string;
  handle: string;
}

class App {
  caller = $state.raw<Caller | null>(null);
  refused = $state("");
  live = $state.raw<Model | null>(null);
  past = $state.raw<Model | null>(null);
  /** The record that is shown; 0: the newest. */
  at = $state(0);
  loadingPast = $state(false);
  trouble = $state("");
  connected = $state(false);
  receivedAt = $state(0);
  events = $state.raw<Event[]>([]);
  leftOut = $state(0);
  shown = $derived(this.at ? this.past : this.live);
  /** The tenants that the caller sees, and the one that screens about a single tenant show. */
  tenants = $derived(this.isProvider ? [...new Set(this.live?.policies.map((one) => one.tenant))] : [this.caller?.tenant ?? ""]);
  chosen = $state("");
  tenant = $derived(this.tenants.includes(this.chosen) ? this.chosen : (this.tenants[0] ?? ""));

  #ending: AbortController | null = null;
  #asking: AbortController | null = null;
  #wanted = 0;
  #overview: Overview | null = null;
  #loads: Loads | null = null;

  get isProvider(): boolean {
    return this.caller?.role.startsWith("provider") ?? false;
  }

  /** Whether the caller may change policies. */
  get isAdmin(): boolean {
    return this.caller?.role.endsWith("admin") ?? false;
  }

  /** Whether the caller may ask what would happen (`whatif`). */
  get mayPlay(): boolean {
    return this.isAdmin || this.isProvider;
  }

  /** Whether the caller may ask when a job of theirs would start, and what it would cost. */
  get mayForecast(): boolean {
    return this.mayPlay || this.caller?.role === "tenant member";
  }

  async logIn(text: string): Promise<void> {
    setToken(text.trim());
    this.refused = "";
    await this.begin();
  }

  logOut(message = ""): void {
    this.#ending?.abort();
    setToken("");
    this.caller = null;
    this.live = this.past = this.#overview = this.#loads = null;
    this.events = [];
    this.at = 0;
    this.refused = message;
  }

  async begin(): Promise<void> {
    try {
      await tokenFromAddress();
      if (!token()) return;
      this.caller = await get<Caller>("/v1/me");
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return this.logOut(error.message);
      this.refused = error instanceof Error ? error.message : String(error);
      return;
    }
    void this.#watch();
  }

  async #watch(): Promise<void> {
    this.#ending?.abort();
    const ending = (this.#ending = new AbortController());
    let wait = RETRY_FIRST;
    let since = "";
    while (!ending.signal.aborted) {
      try {
        for await (const change of stream<Change>("/v1/overview:watch", { since }, ending.signal)) {
          wait = RETRY_FIRST;
          since = change.sequence;
          this.#take(change);
        }
        this.trouble = "the API ended the connection; connecting again";
      } catch (error) {
        if (ending.signal.aborted) return;
        if (error instanceof ApiError && error.status === 401) return this.logOut(error.message);
        if (error instanceof ApiError && error.status === 400) since = "";
        this.trouble = error instanceof ApiError ? error.message : "the connection broke off; connecting again";
      }
      this.connected = false;
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(wait * 2, RETRY_LAST);
    }
  }

  #take(change: Change): void {
    this.connected = true;
    this.trouble = "";
    this.receivedAt = Date.now();
    if (change.overview) {
      if (change.overview.devices?.node?.length !== this.#overview?.devices?.node?.length) this.#loads = null;
      this.#overview = change.overview;
    }
    if (change.loads) this.#loads = change.loads;
    if (this.#overview && (change.overview || change.loads)) this.live = modelOf(this.#overview, this.#loads);
    if (change.events?.length) this.events = [...change.events.reverse(), ...this.events].slice(0, EVENTS_KEPT);
    if (change.left_out) this.leftOut += change.left_out;
  }

  /** Shows the installation as it was at a time. */
  async showTime(time: string): Promise<void> {
    this.#asking?.abort();
    this.#asking = null;
    this.#wanted = 0;
    this.loadingPast = true;
    try {
      const found = modelOf(await get<Overview>("/v1/overview", { at: time }));
      this.past = found;
      this.at = found.sequence;
      this.trouble = "";
    } catch (error) {
      this.trouble = error instanceof Error ? error.message : String(error);
    } finally {
      this.loadingPast = false;
    }
  }

  /** Shows the installation after a record; 0: the newest one, live. Of requests that come fast only the last is answered. */
  async show(sequence: number): Promise<void> {
    const tip = this.live?.sequence ?? 0;
    this.#wanted = sequence;
    if (!sequence || sequence >= tip) {
      this.#asking?.abort();
      this.#asking = null;
      this.at = 0;
      this.past = null;
      return;
    }
    if (this.#asking) return;
    while (this.#wanted && (this.at !== this.#wanted || !this.past)) {
      const asked = this.#wanted;
      const asking = (this.#asking = new AbortController());
      this.loadingPast = true;
      try {
        const found = await get<Overview>("/v1/overview", { at: asked }, asking.signal);
        if (!this.#wanted) break;
        this.past = modelOf(found);
        this.at = asked;
        this.trouble = "";
      } catch (error) {
        if (asking.signal.aborted) break;
        this.trouble = error instanceof Error ? error.message : String(error);
        if (error instanceof ApiError && error.status === 503) {
          await new Promise((resolve) => setTimeout(resolve, 300));
          continue;
        }
        break;
      } finally {
        this.loadingPast = false;
      }
    }
    this.#asking = null;
  }
}

export const app = new App();
