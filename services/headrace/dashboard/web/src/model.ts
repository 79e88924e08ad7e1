// What is drawn, computed from an overview. Pure.

import type { Loads, Overview, Pool, Queue } from "./types";

export const UNITS = 126_000; // of one GPU (R1)

/** Hues that people with the usual kinds of colour blindness tell apart; further policies reuse them with another pattern. */
export const HUES = ["#4c9aff", "#ffb454", "#3fb68b", "#d874c8", "#e8d44d", "#f0764f", "#7ad0e8", "#9d8cff"];

/** A job that holds devices. */
export interface Holder {
  id: string;
  name: string;
  tenant: string;
  user: string;
  queue: string;
  state: string;
  since: number;
}

export interface Share {
  holder: Holder;
  units: number;
  mig: string;
  start: number;
  colour: string;
  striped: boolean;
}

export interface Device {
  name: string;
  used: number;
  kept: number;
  unfit: string;
  /** Percent of the time in which it computes; -1: unknown. */
  busy: number;
  /** Held and nearly unused for ten minutes. */
  idle: boolean;
  shares: Share[];
}

/** What takes a node out of service, or will (R41). Times in milliseconds since 1970; `end` 0: until the node is uncordoned. */
export interface Maintenance {
  kind: string;
  begin: number;
  end: number;
  reason: string;
  by: string;
}

export interface GpuNode {
  name: string;
  pool: string;
  state: string;
  model: string;
  maintenance: Maintenance | null;
  devices: Device[];
}

/** What a policy has of one GPU model that a pool governs (R43). */
export interface ModelUse {
  key: string;
  model: string;
  used: number;
  reservation: number;
  limit: number | null;
  borrowed: number;
}

/** The GPUs of one model that a pool governs (R43). */
export interface PoolModel {
  key: string;
  model: string;
  capacity: number;
  used: number;
  free: number;
  kept: number;
  unusable: number;
}

export interface PolicyUse {
  key: string;
  tenant: string;
  policy: string;
  colour: string;
  striped: boolean;
  used: number;
  reservation: number;
  limit: number | null;
  borrowed: number;
  pending: number;
  running: number;
  models: ModelUse[];
  queues: Queue[];
}

export interface PoolUse {
  name: string;
  closed: string;
  nodes: GpuNode[];
  capacity: number;
  used: number;
  free: number;
  kept: number;
  unusable: number;
  models: PoolModel[];
  causes: string[];
  parts: { key: string; colour: string; striped: boolean; gpus: number }[];
}

export interface Model {
  sequence: number;
  time: string;
  /** Names of the jobs that hold devices, by id. */
  names: Map<string, string>;
  pools: PoolUse[];
  policies: PolicyUse[];
  running: number;
  pending: number;
  gpus: number;
  used: number;
}

/** A number of an amount as people write it: `2`, `0.5`, `1/7`. */
export function amount(text: string | undefined): number {
  if (!text) return 0;
  const [over, under] = text.split("/");
  return under ? Number(over) / Number(under) : Number(over);
}

const MODEL = "gpu:";

/** The model of a key such as `gpu:H100-80GB`; empty for others. */
export function modelOfKey(key: string): string {
  return key.startsWith(MODEL) ? key.slice(MODEL.length) : "";
}

function modelUses(queue: Queue): ModelUse[] {
  return (queue.scopes ?? [])
    .filter((scope) => modelOfKey(scope.key))
    .map((scope) => ({
      key: scope.key,
      model: modelOfKey(scope.key),
      used: amount(scope.used),
      reservation: amount(scope.reservation),
      limit: scope.limit ? amount(scope.limit) : null,
      borrowed: amount(scope.borrowed),
    }));
}

/** Units as an exact share of a GPU: `1/2`, `3`, `1 1/7`. */
export function exact(units: number): string {
  const whole = Math.floor(units / UNITS);
  const rest = units - whole * UNITS;
  if (!rest) return String(whole);
  let a = rest;
  let b = UNITS;
  while (b) [a, b] = [b, a % b];
  const part = `${rest / a}/${UNITS / a}`;
  return whole ? `${whole} ${part}` : part;
}

/** A number for people: at most two digits behind the point. */
export function short(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: 2 });
}

/** A sentence in which the keys of jobs are replaced by their users and names; `names`: by id. */
export function readable(text: string | undefined, names: Map<string, string> | undefined): string {
  const title = (id: string): string => names?.get(id) || `…${id.slice(-6)}`;
  return (text ?? "")
    .replace(/\b[a-z0-9-]+\.([\w.-]+?)\.([0-7][0-9a-hjkmnp-tv-z]{25})\b/g, (_, user: string, id: string) => `${user}'s ${title(id)}`)
    .replace(/\b[0-7][0-9a-hjkmnp-tv-z]{25}\b/g, title);
}

function policyKey(queue: Queue): [string, string] {
  const tenant = queue.name.split("/")[1] ?? "";
  return [tenant, queue.policy];
}

function policiesOf(overview: Overview): Map<string, PolicyUse> {
  const found = new Map<string, PolicyUse>();
  for (const queue of overview.queues ?? []) {
    const [tenant, policy] = policyKey(queue);
    const key = `${tenant}/${policy}`;
    let use = found.get(key);
    if (!use) {
      const scope = queue.scopes?.find((one) => one.key === "gpu");
      const number = found.size;
      use = {
        key,
        tenant,
        policy,
        colour: HUES[number % HUES.length] ?? "#888",
        striped: Math.floor(number / HUES.length) % 2 === 1,
        used: amount(scope?.used),
        reservation: amount(scope?.reservation),
        limit: scope?.limit ? amount(scope.limit) : null,
        borrowed: amount(scope?.borrowed),
        pending: 0,
        running: 0,
        models: modelUses(queue),
        queues: [],
      };
      found.set(key, use);
    }
    use.pending += Number(queue.pending ?? 0);
    use.running += Number(queue.running ?? 0);
    use.queues.push(queue);
  }
  return found;
}

function holdersOf(overview: Overview): Holder[] {
  const columns = overview.holders ?? {};
  return (columns.id ?? []).map((id, i) => ({
    id,
    name: columns.display_name?.[i] ?? "",
    tenant: columns.tenant?.[i] ?? "",
    user: columns.user?.[i] ?? "",
    queue: columns.queue?.[i] ?? "",
    state: columns.state?.[i] ?? "",
    since: Number(columns.since?.[i] ?? 0) * 1000,
  }));
}

const UNKNOWN = { colour: "#888", striped: false };

function nodesOf(overview: Overview, loads: Loads | null, policies: Map<string, PolicyUse>): GpuNode[] {
  const { name = [], pool = [], state = [], model = [] } = overview.nodes ?? {};
  const nodes = name.map((text, i): GpuNode => ({ name: text, pool: pool[i] ?? "", state: state[i] ?? "", model: model[i] ?? "", maintenance: null, devices: [] }));
  const ahead = overview.nodes?.maintenance ?? {};
  (ahead.node ?? []).forEach((number, i) => {
    const node = nodes[number];
    if (node) node.maintenance = { kind: ahead.kind?.[i] ?? "", begin: Number(ahead.begin?.[i] ?? 0) * 1000, end: Number(ahead.end?.[i] ?? 0) * 1000, reason: ahead.reason?.[i] ?? "", by: ahead.scheduled_by?.[i] ?? "" };
  });
  const columns = overview.devices ?? {};
  const holders = holdersOf(overview);
  const devices = (columns.node ?? []).map((node, i) => {
    const device: Device = {
      name: columns.name?.[i] ?? "",
      used: columns.used?.[i] ?? 0,
      kept: columns.kept?.[i] ?? 0,
      unfit: columns.unfit?.[i] ?? "",
      busy: loads?.busy?.[i] ?? -1,
      idle: loads?.idle?.[i] === 1,
      shares: [],
    };
    nodes[node]?.devices.push(device);
    return device;
  });
  const shares = columns.shares ?? {};
  (shares.device ?? []).forEach((index, i) => {
    const holder = holders[shares.holder?.[i] ?? -1];
    if (!holder) return;
    const policy = policies.get(`${holder.tenant}/${holder.queue.split("/")[0]}`) ?? UNKNOWN;
    devices[index]?.shares.push({
      holder,
      units: shares.units?.[i] ?? 0,
      mig: shares.mig?.[i] ?? "",
      start: shares.start?.[i] ?? 0,
      colour: policy.colour,
      striped: policy.striped,
    });
  });
  return nodes;
}

/** The names in one text, those that follow each other as a range: `gpu0–3, gpu6`. */
export function ranges(names: string[]): string {
  const found: { stem: string; first: string; last: string; names: string[] }[] = [];
  for (const name of names) {
    const [, stem = "", digits = ""] = /^(.*?)(\d{1,9})$/.exec(name) ?? [name, name];
    const before = found.at(-1);
    if (before && digits && before.stem === stem && Number(digits) === Number(before.last) + 1) {
      before.last = digits;
      before.names.push(name);
    } else found.push({ stem, first: digits, last: digits || "-1", names: [name] });
  }
  return found.flatMap((one) => (one.names.length > 2 ? `${one.stem}${one.first}–${one.last}` : one.names)).join(", ");
}

/** What each job holds on a node, its equal parts of several devices together. */
export function holdings(node: GpuNode): { devices: string[]; share: Share; idle: boolean }[] {
  const found = new Map<string, { devices: string[]; share: Share; idle: boolean }>();
  for (const device of node.devices)
    for (const share of device.shares) {
      const key = [share.holder.tenant, share.holder.id, share.units, share.mig, device.idle].join(" ");
      const one = found.get(key);
      if (one) one.devices.push(device.name);
      else found.set(key, { devices: [device.name], share, idle: device.idle });
    }
  return [...found.values()];
}

/** A number of things: `1 job`, `1,200 jobs`. */
export function counted(count: number, thing: string): string {
  return `${count.toLocaleString("en")} ${count === 1 ? thing : `${thing}s`}`;
}

function poolUse(pool: Pool, nodes: GpuNode[]): PoolUse {
  const name = pool.name.replace(/^pools\//, "");
  const own = nodes.filter((node) => node.pool === name);
  const gpu = pool.keys?.find((key) => key.key === "gpu");
  const parts = new Map<string, { key: string; colour: string; striped: boolean; gpus: number }>();
  let seen = 0;
  for (const node of own)
    for (const device of node.devices)
      for (const share of device.shares) {
        const key = `${share.holder.tenant}/${share.holder.queue.split("/")[0]}`;
        const part = parts.get(key) ?? { key, colour: share.colour, striped: share.striped, gpus: 0 };
        part.gpus += share.units / UNITS;
        seen += share.units / UNITS;
        parts.set(key, part);
      }
  const used = amount(gpu?.used);
  if (used - seen > 1e-6) parts.set("others", { key: "others", colour: "#8a8f98", striped: false, gpus: used - seen });
  return {
    name,
    closed: pool.closed ?? "",
    nodes: own,
    capacity: amount(gpu?.capacity),
    used,
    free: amount(gpu?.free),
    kept: amount(gpu?.kept),
    unusable: amount(gpu?.unusable),
    models: (pool.keys ?? [])
      .filter((key) => modelOfKey(key.key))
      .map((key) => ({ key: key.key, model: modelOfKey(key.key), capacity: amount(key.capacity), used: amount(key.used), free: amount(key.free), kept: amount(key.kept), unusable: amount(key.unusable) })),
    causes: (gpu?.causes ?? []).map((one) => `${one.amount} on ${one.node || "nodes to come"}: ${one.cause}${one.by ? ` by ${one.by}` : ""}`),
    parts: [...parts.values()].sort((a, b) => a.key.localeCompare(b.key)),
  };
}

/** How much held GPUs compute on average, and how many of them can tell. */
export function computing(nodes: GpuNode[]): { percent: number; known: number; held: number; idle: number } {
  const held = nodes.flatMap((node) => node.devices).filter((device) => device.used > 0);
  const known = held.filter((device) => device.busy >= 0);
  const percent = known.length ? Math.round(known.reduce((sum, device) => sum + device.busy, 0) / known.length) : 0;
  return { percent, known: known.length, held: held.length, idle: held.filter((device) => device.idle).length };
}

/** Jobs that hold GPUs which were nearly unused for ten minutes, those with most of them first. */
export function idleHolders(nodes: GpuNode[]): { holder: Holder; colour: string; units: number; nodes: string[] }[] {
  const found = new Map<string, { holder: Holder; colour: string; units: number; nodes: string[] }>();
  for (const node of nodes)
    for (const device of node.devices.filter((one) => one.idle))
      for (const share of device.shares) {
        const key = `${share.holder.tenant}/${share.holder.id}`;
        const one = found.get(key) ?? { holder: share.holder, colour: share.colour, units: 0, nodes: [] };
        one.units += share.units;
        if (!one.nodes.includes(node.name)) one.nodes.push(node.name);
        found.set(key, one);
      }
  return [...found.values()].sort((a, b) => b.units - a.units);
}

/** Maintenance that is ahead or under way, the first to begin first: a window once for its pool, a drain for its node. */
export function maintenanceOf(nodes: GpuNode[]): { where: string; node: string; nodes: number; maintenance: Maintenance }[] {
  const found = new Map<string, { where: string; node: string; nodes: number; maintenance: Maintenance }>();
  for (const node of nodes) {
    if (!node.maintenance) continue;
    const isDrain = node.maintenance.kind === "drain";
    const where = isDrain ? node.name : `pool ${node.pool}`;
    const one = found.get(where);
    if (one) one.nodes++;
    else found.set(where, { where, node: isDrain ? node.name : "", nodes: 1, maintenance: node.maintenance });
  }
  return [...found.values()].sort((a, b) => a.maintenance.begin - b.maintenance.begin);
}

/** Everything that the screens draw. `loads`: of the same devices, if they are known. */
export function modelOf(overview: Overview, loads: Loads | null = null): Model {
  const policies = policiesOf(overview);
  const nodes = nodesOf(overview, loads, policies);
  const pools = (overview.pools ?? []).map((pool) => poolUse(pool, nodes));
  const elsewhere = nodes.filter((node) => !pools.some((pool) => pool.name === node.pool));
  if (elsewhere.length)
    pools.push({ name: "", closed: "", nodes: elsewhere, capacity: 0, used: 0, free: 0, kept: 0, unusable: 0, models: [], causes: [], parts: [] });
  const sum = (of: (pool: PoolUse) => number): number => pools.reduce((total, pool) => total + of(pool), 0);
  return {
    sequence: Number(overview.sequence),
    time: overview.time ?? "",
    names: new Map(holdersOf(overview).map((holder) => [holder.id, holder.name])),
    pools,
    policies: [...policies.values()],
    running: [...policies.values()].reduce((total, one) => total + one.running, 0),
    pending: [...policies.values()].reduce((total, one) => total + one.pending, 0),
    gpus: sum((pool) => pool.capacity),
    used: sum((pool) => pool.used),
  };
}
