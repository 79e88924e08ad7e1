import { describe, expect, it } from "vitest";
import { amount, computing, counted, exact, holdings, idleHolders, maintenanceOf, modelOf, ranges, short, UNITS, readable } from "./model";
import { duration, period } from "./time";
import type { Overview } from "./types";

const overview: Overview = {
  sequence: "12",
  time: "2026-11-26T12:00:00Z",
  pools: [{ name: "pools/hall", keys: [{ key: "gpu", capacity: "3", used: "1.5", free: "1", kept: "0", unusable: "0.5" }] }],
  queues: [
    { name: "tenants/acme/queues/dev/half", policy: "dev", profile: "half", pending: "2", running: "1", scopes: [{ key: "gpu", used: "0.5", reservation: "1", borrowed: "0" }] },
    { name: "tenants/acme/queues/dev/one", policy: "dev", profile: "one", pending: "3", scopes: [{ key: "gpu", used: "0.5", reservation: "1", borrowed: "0" }] },
  ],
  nodes: { name: ["n1", "n2"], pool: ["hall", ""], state: ["ready", "lost"], model: ["A100", "A100"] },
  devices: {
    node: [0, 0, 1],
    name: ["gpu0", "gpu1", "gpu0"],
    used: [UNITS, UNITS / 2, 0],
    kept: [0, 0, 0],
    unfit: ["", "", "XID 79"],
    shares: { device: [1], holder: [0], units: [UNITS / 2], mig: [""], start: [0] },
  },
  holders: { id: ["01jd3v8k5w2m4x6z8b0c2e4g6h"], display_name: [""], tenant: ["acme"], user: ["ann"], queue: ["dev/half"], state: ["running"], since: ["5"] },
};

describe("amounts", () => {
  it("are read as people write them", () => {
    expect(["2", "0.5", "1/7", "", undefined].map(amount)).toEqual([2, 0.5, 1 / 7, 0, 0]);
  });
  it("in units are shown as exact shares of a GPU", () => {
    expect([0, UNITS, 63_000, 18_000, 3 * UNITS + 42_000, 1].map(exact)).toEqual(["0", "1", "1/2", "1/7", "3 1/3", "1/126000"]);
  });
  it("are short for people", () => {
    expect([1234.5, 1 / 3, 8].map(short)).toEqual(["1,234.5", "0.33", "8"]);
  });
  it("of things name one thing or several", () => {
    expect([0, 1, 1200].map((count) => counted(count, "job"))).toEqual(["0 jobs", "1 job", "1,200 jobs"]);
  });
});

describe("names of devices", () => {
  it("that follow each other are a range", () => {
    const names = [["gpu0", "gpu1", "gpu2", "gpu3"], ["gpu6", "gpu7"], ["gpu0", "gpu1", "gpu2", "gpu8"], ["gpu9", "gpu10", "gpu11"], ["MIG-a", "MIG-b"], []];
    expect(names.map(ranges)).toEqual(["gpu0–3", "gpu6, gpu7", "gpu0–2, gpu8", "gpu9–11", "MIG-a, MIG-b", ""]);
  });
});

describe("the model of an overview", () => {
  const model = modelOf(overview);
  it("has each policy once, with the jobs of all its queues", () => {
    expect(model.policies.map(({ key, used, reservation, limit, pending, running }) => ({ key, used, reservation, limit, pending, running }))).toEqual([
      { key: "acme/dev", used: 0.5, reservation: 1, limit: null, pending: 5, running: 1 },
    ]);
  });
  it("shows what others hold as the rest of what is used", () => {
    expect(model.pools[0]?.parts.map(({ key, gpus }) => [key, gpus])).toEqual([
      ["acme/dev", 0.5],
      ["others", 1],
    ]);
  });
  it("has nodes outside all pools in a pool without a name", () => {
    expect(model.pools.map((pool) => [pool.name, pool.nodes.map((node) => node.name)])).toEqual([
      ["hall", ["n1"]],
      ["", ["n2"]],
    ]);
  });
  it("gives each share to its device", () => {
    expect(model.pools[0]?.nodes[0]?.devices.map((device) => device.shares.map((share) => share.holder.user))).toEqual([[], ["ann"]]);
  });
  it("has what a job holds on a node in one entry, as far as its parts are equal", () => {
    const held: Overview = {
      ...overview,
      nodes: { name: ["n1"], pool: ["hall"], state: ["ready"], model: ["A100"] },
      devices: {
        node: [0, 0, 0, 0],
        name: ["gpu0", "gpu1", "gpu2", "gpu3"],
        shares: { device: [0, 1, 2, 3], holder: [0, 0, 0, 0], units: [UNITS, UNITS, UNITS, UNITS / 2], mig: ["", "", "", ""], start: [0, 0, 0, 0] },
      },
    };
    const [node] = modelOf(held, { busy: [0, 0, 0, 0], idle: [0, 0, 1, 0] }).pools[0]?.nodes ?? [];
    const found = node ? holdings(node) : [];
    expect(found.map(({ devices, share, idle }) => [devices, share.units, share.holder.user, idle])).toEqual([
      [["gpu0", "gpu1"], UNITS, "ann", false],
      [["gpu2"], UNITS, "ann", true],
      [["gpu3"], UNITS / 2, "ann", false],
    ]);
  });
  it("has governed GPU models beside all GPUs, for pools and for policies", () => {
    const governed: Overview = {
      sequence: "1",
      pools: [{ name: "pools/hall", keys: [{ key: "gpu", capacity: "32" }, { key: "cpu", capacity: "9" }, { key: "gpu:H100-80GB", capacity: "8", used: "3", free: "4", kept: "1" }] }],
      queues: [{ name: "tenants/acme/queues/dev/one", policy: "dev", profile: "one", scopes: [{ key: "gpu", used: "5", reservation: "2" }, { key: "gpu:H100-80GB", used: "3", reservation: "2", borrowed: "1", limit: "4" }] }],
    };
    const found = modelOf(governed);
    expect([found.pools[0]?.capacity, found.pools[0]?.models]).toEqual([32, [{ key: "gpu:H100-80GB", model: "H100-80GB", capacity: 8, used: 3, free: 4, kept: 1, unusable: 0 }]]);
    expect([found.policies[0]?.used, found.policies[0]?.models]).toEqual([5, [{ key: "gpu:H100-80GB", model: "H100-80GB", used: 3, reservation: 2, limit: 4, borrowed: 1 }]]);
    expect(model.pools.flatMap((pool) => pool.models)).toEqual([]);
  });
  it("is empty for an installation without anything", () => {
    expect(modelOf({ sequence: "1" })).toEqual({ sequence: 1, time: "", names: new Map(), pools: [], policies: [], running: 0, pending: 0, gpus: 0, used: 0 });
  });
});

describe("loads", () => {
  const nodes = modelOf(overview, { busy: [-1, 40, 0], idle: [0, 1, 0] }).pools.flatMap((pool) => pool.nodes);
  it("belong to the devices in their order", () => {
    expect(nodes.map((node) => node.devices.map((device) => [device.busy, device.idle]))).toEqual([[[-1, false], [40, true]], [[0, false]]]);
    expect(modelOf(overview).pools[0]?.nodes[0]?.devices.map((device) => device.busy)).toEqual([-1, -1]);
  });
  it("are averaged over held devices that can tell", () => {
    expect(computing(nodes)).toEqual({ percent: 40, known: 1, held: 2, idle: 1 });
  });
  it("tell who holds idle devices", () => {
    expect(idleHolders(nodes).map(({ holder, units, nodes: on }) => [holder.user, units, on])).toEqual([["ann", UNITS / 2, ["n1"]]]);
  });
});

describe("maintenance", () => {
  const nodes = { name: ["n1", "n2", "n3"], pool: ["hall", "hall", ""], state: ["ready", "ready", "ready"], model: ["", "", ""] };
  const window = { kind: "window", reason: "new drivers" };
  const maintenance = { node: [0, 1, 2], kind: ["window", "window", "drain"], begin: ["7200", "7200", "3600"], end: ["10800", "10800", "0"], reason: ["new drivers", "new drivers", ""], scheduled_by: ["", "", "root"] };
  const found = modelOf({ sequence: "1", pools: [{ name: "pools/hall" }], nodes: { ...nodes, maintenance } }).pools.flatMap((pool) => pool.nodes);
  it("belongs to its node", () => {
    expect(found.map((node) => node.maintenance)).toEqual([
      { ...window, begin: 7_200_000, end: 10_800_000, by: "" },
      { ...window, begin: 7_200_000, end: 10_800_000, by: "" },
      { kind: "drain", reason: "", begin: 3_600_000, end: 0, by: "root" },
    ]);
  });
  it("is named once for a pool, and the first to begin comes first", () => {
    expect(maintenanceOf(found).map(({ where, node, nodes: count }) => [where, node, count])).toEqual([
      ["n3", "n3", 1],
      ["pool hall", "", 2],
    ]);
  });
  it("of a day names the day once", () => {
    const [begin, end] = [new Date(2026, 10, 27, 14).getTime(), new Date(2026, 10, 27, 16, 30).getTime()];
    expect([period(begin, end), period(begin, 0), period(begin, end + 86_400_000)]).toEqual([
      "27 Nov 2026, 14:00 – 16:30",
      "from 27 Nov 2026, 14:00",
      "27 Nov 2026, 14:00 – 28 Nov 2026, 16:30",
    ]);
  });
});

describe("durations", () => {
  it("have two units at most", () => {
    expect([999, 61_000, 3_700_000, 90_000_000].map(duration)).toEqual(["0s", "1m 1s", "1h 1m", "1d 1h"]);
  });
});

it("keys of jobs in sentences are shown as users and names", () => {
  const names = new Map([["01m8dajpb1sbsak19gbyb1pb13", "pretrain-2"]]);
  expect(readable("wait for job default.alice.01m8dajpb1sbsak19gbyb1pb13 to end", names)).toBe("wait for job alice's pretrain-2 to end");
  expect(readable("takes back from mia's 01m8dajpdcj3292zv37tq5bam9 (reclaim)", names)).toBe("takes back from mia's …q5bam9 (reclaim)");
});
