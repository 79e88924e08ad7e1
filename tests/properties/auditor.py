"""Reads a ledger as any outsider could, and says where it breaks the promises of the rules.

Independent of the product on purpose: it knows the bytes of the records and nothing else. It keeps a naive account of who holds what (no
index, no running sums: every number is summed up anew when it is needed) and holds each record against it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

GPU_UNITS = 126_000
SERVICES = ("admission", "allocator", "audit", "governance", "preemption")
Json = dict[str, Any]
Amounts = dict[str, int]


class StoredMessage(Protocol):
    sequence: int
    subject: str
    payload: bytes


@dataclass(eq=False)
class Job:
    key: str
    policy: tuple[str, str]
    request: Amounts
    replicas: int
    preemptible: bool
    profile: str = ""
    state: str = "pending"
    attempt: int = 0
    started: dict[int, int] = field(default_factory=dict)
    begun: set[int] = field(default_factory=set)
    min_runtime: int = 0
    yields: bool = False
    forced: bool = False
    requeue_of: int = 0
    promised: bool = False
    stops: bool = False
    barred_from: str = ""
    barred_by: str = ""
    avoids: dict[str, int] = field(default_factory=dict)
    checkpoint: str = ""
    moves: bool = False
    required: str = ""
    time_limit: int | None = None
    idle: set[int] = field(default_factory=set)
    memory: int = 0
    shares: list[Json] = field(default_factory=list)
    by_model: bool = False

    @property
    def total(self) -> Amounts:
        return {**{key: value * self.replicas for key, value in self.request.items()}, "job": 1}


class Lease(NamedTuple):
    job: Job
    node: str
    pool: str
    devices: dict[str, int]
    slices: dict[str, tuple[str, int]]
    amounts: Amounts
    suspended: bool = False
    granted: int = 0
    """Sequence of the record that granted it."""


class Nomination(NamedTuple):
    job: Job
    pool: str
    amounts: Amounts
    places: list[Json]


class Account(NamedTuple):
    """A policy everywhere (`pool` empty), a policy in a pool, or a tenant in a pool (`policy` None)."""

    tenant: str
    policy: str | None
    pool: str
    reservation: Amounts | None
    limit: Amounts

    def reserved(self, key: str) -> int:
        return (self.reservation or {}).get(key, 0)

    def counts(self, job: Job, pool: str) -> bool:
        tenant, policy = job.policy
        return tenant == self.tenant and self.policy in (None, policy) and self.pool in ("", pool)


class Auditor:
    """`violations` are lines that say at which sequence which promise was broken.

    `now` only goes on; `moment` is the time of the record that is being read, which lies before it where an allocator's that had not
    read it was heard first.
    """

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.sequence = 0
        self.now = 0
        self.moment = 0
        self.digests: dict[str, str] = {}
        self.tenants: dict[str, Json] = {}
        self.pools: dict[str, Json] = {}
        self.policies: dict[tuple[str, str], Json] = {}
        self.profiles: dict[tuple[str, str], Json] = {}
        self.closed: set[tuple[str, str, str]] = set()
        self.shut: set[tuple[str, str]] = set()
        self.used: Counter[tuple[str, str]] = Counter()
        self.charged: dict[tuple[str, int], int] = {}
        self.nodes: dict[str, Json] = {}
        self.removed: set[str] = set()
        self.away: set[str] = set()
        self.cordoned: set[str] = set()
        self.drains: dict[str, int] = {}
        self.windows: dict[str, Json] = {}
        self.growing: set[str] = set()
        self.jobs: dict[str, Job] = {}
        self.arrays: dict[str, list[str]] = {}
        self.at_once: dict[str, tuple[str, int]] = {}
        self.leases: dict[tuple[str, int], Lease] = {}
        self.whole: dict[tuple[str, int], Lease] = {}
        self.nominations: dict[str, Nomination] = {}
        self.notified: dict[str, list[Job]] = {}
        self.amended = False

    def read_all(self, messages: Iterable[StoredMessage]) -> list[str]:
        for message in messages:
            self.read(message)
        return self.violations

    def read(self, message: StoredMessage) -> None:
        if message.sequence != self.sequence + 1:
            self._complain(f"sequence {message.sequence} follows {self.sequence}")
        self.sequence = message.sequence
        record = json.loads(message.payload)
        by = record["by"]
        if message.subject != f"hr.ledger.{by}":
            self._complain(f"{by} wrote on {message.subject}")
        if by in SERVICES:
            if record.get("prev", "") != self.digests.get(by, ""):
                self._complain(f"the record of {by} does not name the one before it")
            self.digests[by] = blake2b(message.payload, digest_size=16).hexdigest()
        if record["now"] < self.now:
            self._complain("a record is older than the one before it")
        self.read_record(record)

    def read_record(self, record: Json) -> None:
        """What a record says; where it stands has been looked at."""
        for (key, _), units in self.charged.items():  # GPU-unit-microseconds, since the beginning
            self.used[self.jobs[key].policy] += units * max(0, record["now"] - self.now)
        self.moment = record["now"]
        self.now = max(self.now, self.moment)
        gangs: dict[str, list[Json]] = {}
        for fact in record["facts"]:
            handler = getattr(self, "_" + fact["type"].removesuffix(".v1").replace(".", "_"), None)
            if handler is not None:
                handler(fact)
            if fact["type"] == "lease.granted.v1":
                gangs.setdefault(fact["job"], []).append(fact)
        for key, leases in gangs.items():
            self._check_gang(self.jobs[key], leases)

    def _complain(self, what: str) -> None:
        self.violations.append(f"{self.sequence}: {what}")

    def _installation_level(self, fact: Json) -> None:
        self.amended = fact["level"] >= 2

    # What was written and what there is.

    def _tenant_applied(self, fact: Json) -> None:
        self.tenants[fact["tenant"]["name"]] = fact["tenant"]

    def _pool_applied(self, fact: Json) -> None:
        self.pools[fact["pool"]["name"]] = fact["pool"]
        self.closed.discard(("pool", "", fact["pool"]["name"]))

    def _policy_applied(self, fact: Json) -> None:
        key = (fact["policy"].get("tenant", "default"), fact["policy"]["name"])
        self.policies[key] = fact["policy"]
        self.closed.discard(("policy", *key))
        self.shut.discard(key)

    def _profile_applied(self, fact: Json) -> None:
        self.profiles[fact["profile"].get("tenant", ""), fact["profile"]["name"]] = fact["profile"]

    def _profile_deleted(self, fact: Json) -> None:
        self.profiles.pop((fact.get("tenant", ""), fact["name"]), None)

    def _policy_deleted(self, fact: Json) -> None:
        self.policies.pop((fact["tenant"], fact["name"]), None)
        self.closed.discard(("policy", fact["tenant"], fact["name"]))

    def _policy_gated(self, fact: Json) -> None:
        key = (fact["tenant"], fact["policy"])
        (self.shut.add if fact.get("shut") else self.shut.discard)(key)

    def _check_calendar(self, job: Job, fact: Json) -> None:
        """Windows are looked at by what was stated of them, budgets by our own sum, but for days: no other period ends here."""
        if job.policy in self.shut:
            self._complain(f"{job.key} starts outside its window (R33)")
        for budget in self.policies.get(job.policy, {}).get("budgets", ()):
            enough = self.used[job.policy] < budget["hours"] * 3_600_000_000 * GPU_UNITS
            if enough or budget.get("per") == "day" or budget["key"] != "gpu":
                continue
            if budget.get("then", "wait") == "wait" or not job.preemptible or not fact.get("over_budget"):
                self._complain(f"{job.key} starts although a budget is used up (R33)")

    def _object_closed(self, fact: Json) -> None:
        self.closed.add((fact["kind"], fact.get("tenant", ""), fact["name"]))

    def _node_registered(self, fact: Json) -> None:
        self.nodes[fact["node"]] = fact
        self.away.discard(fact["node"])
        self.removed.discard(fact["node"])

    def _node_stopped(self, fact: Json) -> None:
        self.away.add(fact["node"])

    _node_lost = _node_stopped

    def _node_removed(self, fact: Json) -> None:
        self.away.add(fact["node"])
        self.removed.add(fact["node"])
        there = {key: lease for key, lease in self.leases.items() if lease.node == fact["node"]}
        kept = any(place["node"] == fact["node"] for nomination in self.nominations.values() for place in nomination.places)
        if not kept and all(lease.granted > self.sequence for lease in there.values()):
            for key in there:  # granted before the allocator had read that the node is gone, stored after: without effect
                self._ungrant(key)

    def _ungrant(self, key: tuple[str, int]) -> None:
        job = self.leases.pop(key).job
        if not any(lease.job is job for lease in self.leases.values()):
            job.state, job.attempt = "pending", job.attempt - 1

    def _instance_released(self, fact: Json) -> None:
        """Its node is left: a grant there that the ledger has behind this has no effect (R38)."""
        there = {key: lease for key, lease in self.leases.items() if lease.node == fact["instance"]}
        late = {key for key, lease in there.items() if lease.granted > self.sequence}
        if fact["cause"] not in ("idle", "unused") or len(late) == len(there):  # else it had no effect
            for key in late:
                self._ungrant(key)

    def _instance_ended(self, fact: Json) -> None:
        """Its node has its name, and is gone with it (R38)."""
        self._node_removed({"node": fact["instance"]})

    def _node_cordoned(self, fact: Json) -> None:
        self.cordoned.add(fact["node"])

    _node_set_aside = _node_cordoned

    def _node_drain_ordered(self, fact: Json) -> None:
        self.drains.pop(fact["node"], None)
        self._node_cordoned(fact)

    def _node_drain_scheduled(self, fact: Json) -> None:
        self.drains[fact["node"]] = fact["begins"]

    def _node_drain_began(self, fact: Json) -> None:
        if self.drains.get(fact["node"], self.moment + 1) > self.moment:
            self._complain(f"{fact['node']} is drained before its time (R41)")
        self._node_drain_ordered(fact)

    def _maintenance_stated(self, fact: Json) -> None:
        self.windows.pop(fact["pool"], None)
        if fact.get("begins"):
            self.windows[fact["pool"]] = fact

    def _check_maintenance(self, lease: Lease) -> None:
        """A job that is granted something there has ended before (R41)."""
        job, window = lease.job, self.windows.get(lease.pool)
        begins = [self.drains[lease.node]] if lease.node in self.drains else []
        begins += [] if window is None else [0 if window.get("begun") else window["begins"]]
        terms = self.policies.get(job.policy, {}).get("preemption", {})
        grace = terms.get("callback_grace", 60_000_000) + terms.get("term_grace", 30_000_000)
        if begins and (job.time_limit is None or self.moment + job.time_limit + grace > min(begins)):
            self._complain(f"{job.key} is granted {lease.node}, where maintenance begins before it has ended (R41)")

    def _node_checked(self, fact: Json) -> None:
        if fact["passed"]:
            self.cordoned.discard(fact["node"])

    def _node_uncordoned(self, fact: Json) -> None:
        self.cordoned.discard(fact["node"])
        self.drains.pop(fact["node"], None)

    def _growth_requested(self, fact: Json) -> None:
        """No more nodes than the pool may create, and none while others are on their way (R38)."""
        pool, burst = fact["pool"], self.pools[fact["pool"]].get("burst")
        there = sum(self._belongs(node, pool) for name, node in self.nodes.items() if name not in self.removed)
        if burst is None or there + fact["nodes"] > burst["max_nodes"]:
            self._complain(f"pool {pool} has {there} nodes and is asked for {fact['nodes']} more, beyond what it may create")
        if pool in self.growing:
            self._complain(f"pool {pool} is asked for nodes while it grows")
        if any(self.jobs[job].state != "pending" for job in fact.get("jobs", ())):
            self._complain(f"pool {pool} is asked to grow for somebody who does not wait")
        self.growing.add(pool)

    def _growth_ended(self, fact: Json) -> None:
        if fact["pool"] not in self.growing:
            self._complain(f"pool {fact['pool']} has grown unasked")
        self.growing.discard(fact["pool"])

    # What became of jobs.

    def _job_admitted(self, fact: Json) -> None:
        key = fact["job"]
        if key in self.jobs:
            self._complain(f"{key} is admitted twice")
            return
        policy, replicas = (key.split(".")[0], fact["policy"]), fact.get("replicas", 1)
        names = ((tenant, fact["profile"]) for tenant in (policy[0], ""))
        profile: Json = next((self.profiles[name] for name in names if name in self.profiles), {})
        required = profile.get("topology", {}).get("require", "") if replicas > 1 else ""
        preemptible = fact.get("preemptible", True)
        names_of_jobs = [key]
        if "array" in fact:
            array = fact["array"]
            indices = range(array["first"], array["last"] + 1, array.get("step", 1))
            names_of_jobs = [f"{key}-{index:06}" for index in indices]
            self.arrays[key] = names_of_jobs
            self.at_once |= dict.fromkeys(names_of_jobs, (key, array.get("at_once", 0)))
        for name in names_of_jobs:
            self.jobs[name] = Job(name, policy, fact["request"], replicas, preemptible, fact["profile"], required=required)
            job = self.jobs[name]
            job.time_limit, job.memory, job.shares = fact.get("time_limit"), fact.get("gpu_memory", 0), fact.get("shares", [])
            job.by_model = fact.get("by_model", False)
            self._asks_for_first(job)

    def _asks_for_first(self, job: Job) -> None:
        """Until it is granted anything it asks for the GPU model that is tried first (R42, R43)."""
        if job.shares:
            job.request = _of_model(job, job.shares[0]["model"], job.shares[0]["gpu"])

    def _job_matched(self, fact: Json) -> None:
        """It may be given other GPU models; none of those that it could be given before is gone (R42)."""
        known = {share["model"] for share in fact["shares"]}
        keys = [fact["job"]] if fact["job"] in self.jobs else self.arrays[fact["job"]]
        for job in (self.jobs[key] for key in keys):
            if job.state != "pending" or (len(keys) > 1 and job.attempt):
                continue
            if not {share["model"] for share in job.shares} <= known or job.by_model > fact.get("by_model", False):
                self._complain(f"{job.key} could be given {job.shares} and now {fact['shares']} (R42)")
            job.shares, job.by_model = fact["shares"], fact.get("by_model", False)
            self._asks_for_first(job)

    def _elements(self, fact: Json) -> list[Job]:
        """Elements of an array that a fact is about."""
        ranges = fact.get("elements", [[0, 999_999]])
        return [self.jobs[key] for key in self.arrays[fact["job"]] if any(a <= int(key[-6:]) <= b for a, b in ranges)]

    def _check_array(self, job: Job) -> None:
        array, most = self.at_once.get(job.key, ("", 0))
        running = sum(self.jobs[key].state == "holding" for key in self.arrays[array]) if most else 0
        if running > most:
            self._complain(f"{running} elements of {array} run, and {most} may")

    def _lease_granted(self, fact: Json) -> None:
        job, rank, pool = self.jobs[fact["job"]], fact.get("rank", 0), fact["pool"]
        if job.state == "pending":
            job.state, job.attempt, job.started, job.begun, job.idle = "holding", job.attempt + 1, {}, set(), set()
            job.stops = job.forced = False
            self._check_array(job)
            job.promised = any(kept.job is job and kept.pool == pool for kept in self.nominations.values())
            self._end_nomination(job)
        elif rank == 0:
            self._complain(f"{job.key} is {job.state} and is granted a lease")
        if fact["attempt"] != job.attempt or (job.key, rank) in self.leases:
            self._complain(f"{job.key} is granted attempt {fact['attempt']} rank {rank}; it is at attempt {job.attempt}")
        if job.avoids.get(fact["node"], 0) > self.now:
            self._complain(f"{job.key} is granted {fact['node']}, which has just refused it")
        if job.barred_from == pool:
            self._complain(f"{job.key} is back in pool {pool} before the job it yielded to has started")
        if rank == 0:
            self._check_calendar(job, fact)
        if not self.closed.isdisjoint({("policy", *job.policy), ("pool", "", pool)}):
            self._complain(f"{job.key} is granted a lease where nothing is to be granted (R11)")
        devices = {share["device"]: share["units"] for share in fact.get("devices", ())}
        slices = {share["device"]: (share["mig"], share.get("start", 0)) for share in fact.get("devices", ()) if "mig" in share}
        self.leases[job.key, rank] = Lease(job, fact["node"], pool, devices, slices, fact["amounts"], granted=self.sequence)
        if not self.amended:
            self._charge(job, rank)
        self._check_place(self.leases[job.key, rank])
        if rank == job.replicas - 1:
            charged = [lease.amounts for lease in self._held_by(job)]
            self._check_accounts(job, pool, {key for amounts in charged for key, amount in amounts.items() if amount})

    def _lease_started(self, fact: Json) -> None:
        job, rank = self._job_of(fact), fact.get("rank", 0)
        if job is None:
            return
        job.started.setdefault(rank, self.moment)
        if len(job.started) == job.replicas:
            self._lift_bar(job)
        if rank not in job.begun and (job.key, rank) in self.leases:
            job.begun.add(rank)
            if len(job.begun) == job.replicas == len(self._held_by(job)):
                for one in range(job.replicas):
                    self._charge(job, one)

    def _lease_suspended(self, fact: Json) -> None:
        """Its devices, and what is charged for them, are others' to have."""
        job, rank = self._job_of(fact), fact.get("rank", 0)
        if job is None or (job.key, rank) not in self.leases:
            return
        lease = self.leases[job.key, rank]
        if not lease.suspended:
            self._stop_charging(job, rank)
            self.whole[job.key, rank] = lease
            rest = {key: value for key, value in lease.amounts.items() if not key.startswith("gpu")}
            self.leases[job.key, rank] = lease._replace(devices={}, slices={}, amounts=rest, suspended=True)
            job.idle.discard(rank)
        job.started.pop(rank, None)
        if self._is_suspended(job):
            job.yields = False

    def _is_suspended(self, job: Job) -> bool:
        """As a whole: what is left of a gang that has lost a part is on its way out, and goes on yielding (R29, R35)."""
        held = self._held_by(job)
        return len(held) == job.replicas and all(lease.suspended for lease in held)

    def _resume_ordered(self, fact: Json) -> None:
        """The whole job goes on, where it was, as if it were granted anew."""
        job = self.jobs[fact["job"]]
        held = self._held_by(job)
        if not self._is_suspended(job):
            self._complain(f"{job.key} is to go on and is not suspended")
            return
        if job.barred_from == held[0].pool:
            self._complain(f"{job.key} goes on in pool {job.barred_from} before the job it yielded to has started")
        job.min_runtime = fact.get("min_runtime", 0)
        for rank in range(job.replicas):
            self.leases[job.key, rank] = self.whole.pop((job.key, rank))
            if not self.amended:
                self._charge(job, rank)
        for rank in range(job.replicas):
            self._check_place(self.leases[job.key, rank])
        self._check_accounts(job, held[0].pool, {"gpu"})  # all the rest it has held, and been charged for, all along

    def _checkpoint_registered(self, fact: Json) -> None:
        job = self._job_of(fact)
        if job is not None and self._held_by(job):
            job.checkpoint = fact["uri"]

    def _move_ordered(self, fact: Json) -> None:
        """A suspended job is to go on elsewhere: its new places are kept for it, and what it holds counts no more (R17, R29)."""
        job, pool = self.jobs[fact["job"]], fact["pool"]
        held = self._held_by(job)
        if len(held) < job.replicas or fact["attempt"] != job.attempt:
            return  # it, or a part of it, has ended meanwhile
        if not self._is_suspended(job) or job.moves:
            self._complain(f"{job.key} is to go on elsewhere and is not suspended")
            return
        if not job.checkpoint:
            self._complain(f"{job.key} is to go on elsewhere and has no checkpoint")
        if job.barred_from == pool:
            self._complain(f"{job.key} moves to pool {pool} before the job it yielded to has started")
        if len(fact["places"]) != job.replicas:
            self._complain(f"{job.key} has {job.replicas} replicas and moves to {len(fact['places'])} places")
        amounts: Amounts = {}
        for place in fact["places"]:
            _add(amounts, place["amounts"])
            if job.avoids.get(place["node"], 0) > self.now:
                self._complain(f"{job.key} moves to {place['node']}, which has just refused it")
        self._check_topology(job, pool, {place["node"] for place in fact["places"]})
        job.moves = True
        self.nominations[f"{job.key}@{self.sequence}"] = Nomination(job, pool, amounts, fact["places"])
        asked = {key for key, value in job.total.items() if value}
        self._check_firm(job, pool, asked, "moves")
        self._check_unborrowed(job, pool, asked, "moves")
        for node in {place["node"] for place in fact["places"]}:
            self._check_kept(job, node)

    def _lease_resumed(self, fact: Json) -> None:
        job = self._job_of(fact)
        if job is not None and (job.key, fact.get("rank", 0)) in self.leases:
            job.started[fact.get("rank", 0)] = self.moment
            self._charge(job, fact.get("rank", 0))

    def _lease_ended(self, fact: Json) -> None:
        job = self._job_of(fact)
        lease = None if job is None else self.leases.pop((job.key, fact.get("rank", 0)), None)
        if job is not None and lease is not None:
            self._stop_charging(job, fact.get("rank", 0))
            self.whole.pop((job.key, fact.get("rank", 0)), None)

    _lease_revoked = _lease_ended

    def _charge(self, job: Job, rank: int) -> None:
        """From its record's own moment on: when all replicas run, or go on (R37); in an installation of level 1 from its grant."""
        self._stop_charging(job, rank)
        units = self.charged[job.key, rank] = self.leases[job.key, rank].amounts.get("gpu", 0)
        self.used[job.policy] += units * (self.now - self.moment)

    def _stop_charging(self, job: Job, rank: int) -> None:
        """From its record's own moment on: what has been summed up beyond that was not used."""
        self.used[job.policy] -= self.charged.pop((job.key, rank), 0) * (self.now - self.moment)

    def _job_of(self, fact: Json) -> Job | None:
        """None if the fact is of an attempt that is over."""
        job = self.jobs.get(fact["job"])
        return job if job is not None and job.attempt == fact["attempt"] else None

    def _job_requeued(self, fact: Json) -> None:
        job = self.jobs[fact["job"]]
        self._asks_for_first(job)
        if job.state != "holding" or self._held_by(job):
            self._complain(f"{job.key} is {job.state} with {len(self._held_by(job))} leases and is requeued")
        job.state, job.yields, job.min_runtime = "pending", False, fact.get("min_runtime", 0)
        if (fact["cause"] == "moved") > job.stops:
            self._complain(f"{job.key} waits again to go on elsewhere, and was not told to stop")
        job.moves = False
        job.avoids |= dict.fromkeys(fact.get("avoid", ()), fact.get("avoid_until", 0))

    def _job_ended(self, fact: Json) -> None:
        if fact["job"] in self.arrays:
            for job in self._elements(fact):
                if job.state == "pending" and not job.attempt:
                    self._finish(job, fact["state"])
            return
        self._finish(self.jobs[fact["job"]], fact["state"])

    def _job_dismissed(self, fact: Json) -> None:
        if fact["job"] in self.arrays:
            self._job_ended(fact | {"state": "rejected"})
            return
        if self.jobs[fact["job"]].state != "pending":
            self._complain(f"{fact['job']} is {self.jobs[fact['job']].state} and is dismissed")
        self._finish(self.jobs[fact["job"]], "rejected")

    def _finish(self, job: Job, state: str) -> None:
        if job.state not in ("pending", "holding") or self._held_by(job):
            self._complain(f"{job.key} is {job.state} with {len(self._held_by(job))} leases and ends as {state}")
        job.state = state
        self._end_nomination(job)
        self._lift_bar(job)

    def _held_by(self, job: Job) -> list[Lease]:
        return [lease for lease in self.leases.values() if lease.job is job]

    # Who had to yield.

    def _preemption_ordered(self, fact: Json) -> None:
        job, pool = self.jobs[fact["job"]], fact["pool"]
        victims = [self.jobs[victim["job"]] for victim in fact["victims"]]
        if job.state != "pending":
            self._complain(f"{job.key} is {job.state} and preempts")
        self._check_memory(job, fact["places"])
        for victim in victims:
            self._check_victim(victim, pool)
        if fact["cause"] == "reclaim":
            self._check_reclaim(job, victims, pool)
        else:
            self._check_priority(job, victims, pool)
        amounts: Amounts = {}
        for place in fact["places"]:
            _add(amounts, place["amounts"])
        self.nominations[fact["preemption"]] = Nomination(job, pool, amounts, fact["places"])
        self.notified[fact["preemption"]] = victims
        for victim in victims:
            victim.yields, victim.barred_from, victim.barred_by = True, pool, job.key
            victim.stops |= bool(fact.get("ladders"))
        self._check_own_limit(job, pool)
        asked = {key for key, value in job.total.items() if value}
        self._check_firm(job, pool, asked, "takes back for")
        self._check_unborrowed(job, pool, asked, "takes back for")
        for node in {place["node"] for place in fact["places"]}:
            self._check_kept(job, node)

    def _preemption_forced(self, fact: Json) -> None:
        job = self._job_of(fact)
        if job is not None:
            job.forced = True

    def _job_requeue_requested(self, fact: Json) -> None:
        for job in self._elements(fact) if fact["job"] in self.arrays else ():
            job.requeue_of = job.attempt
        job = None if fact["job"] in self.arrays else self._job_of(fact)
        if job is not None:
            job.requeue_of = fact["attempt"]

    def _stop_ordered(self, fact: Json) -> None:
        job, ladder = self._job_of(fact), fact["ladder"]
        if job is None:
            return
        job.stops = True
        if ladder["cause"] == "preempted" and not (job.yields if ladder.get("preemptor") else job.forced):
            self._complain(f"{job.key} is told that it is preempted, and by nobody that may")
        if ladder["cause"] == "moved" and not job.moves and len(self._held_by(job)) == job.replicas:
            self._complain(f"{job.key} is told to stop because it goes on elsewhere, and nothing is kept for it")
        if ladder["cause"] == "requeued" and job.requeue_of != job.attempt:
            self._complain(f"{job.key} is sent back into line, and its owner has not asked for it")

    def _nomination_ended(self, fact: Json) -> None:
        """Who has not left yet stays barred, until the preemptor has started or had its time (R27)."""
        ended = self.nominations.pop(fact["preemption"], None)
        if ended is not None:
            ended.job.moves = False
        for victim in self.jobs.values():
            if not victim.yields or not self._held_by(victim):
                self._may_return(victim, fact["job"])

    def _preemption_settled(self, fact: Json) -> None:
        for victim in self.notified.pop(fact["preemption"], ()) if fact["preemption"] not in self.nominations else ():
            self._may_return(victim, fact["job"])

    def _end_nomination(self, job: Job) -> None:
        self.nominations = {name: kept for name, kept in self.nominations.items() if kept.job is not job}

    def _lift_bar(self, preemptor: Job) -> None:
        for job in self.jobs.values():
            self._may_return(job, preemptor.key)

    @staticmethod
    def _may_return(job: Job, preemptor: str) -> None:
        if job.barred_by == preemptor:
            job.barred_from = job.barred_by = ""

    # The arithmetic.

    def _accounts(self, policy: tuple[str, str], pool: str) -> list[Account]:
        """The policy's own, then the tenant's share where it has one (R7). Where no block speaks of the pool, 0 is reserved policy-wide."""
        document = self.policies[policy]
        own, wide = document.get("per_pool", {}).get(pool, {}), document.get("reservation")
        if wide is None and "reservation" not in own:
            wide = {}
        accounts = [
            Account(*policy, "", wide, document.get("limit", {})),
            Account(*policy, pool, own.get("reservation"), own.get("limit", {})),
        ]
        for share in self.tenants.get(policy[0], {}).get("shares", ()):
            if share["pool"] == pool:
                accounts.append(Account(policy[0], None, pool, share.get("reservation"), share.get("limit", {})))
        return accounts

    def _side(self, policy: tuple[str, str], other: tuple[str, str], pool: str) -> list[Account]:
        """The accounts of `policy` just below what it and `other` have in common (R23)."""
        looked_at = [account for account in self._accounts(policy, pool) if account.reservation is not None]
        shares = [account for account in looked_at if account.policy is None]
        return shares if shares and policy[0] != other[0] else [account for account in looked_at if account.policy is not None]

    def _lending(self, policy: tuple[str, str], other: tuple[str, str], pool: str) -> list[Account]:
        """Where use of `policy` is borrowed as `other` sees it (R24): here, if it has a block for the pool, else everywhere.

        Across tenants in the share. Below the level of the amendment: in all accounts of its side.
        """
        side = self._side(policy, other, pool)
        here = [account for account in side if account.pool == pool]
        return here if here and self.amended else side

    def _governed(self, pool: str) -> set[str]:
        return {"gpu", *self.pools[pool].get("capacity", {})}

    def _used(self, account: Account, key: str, *, firm: bool = False) -> int:
        """Leases and nominations, less what yields (R17); `firm`: of jobs that are not preemptible."""
        held = [
            (lease.job, lease.pool, lease.amounts)
            for lease in self.leases.values()
            if not lease.job.moves and (not lease.job.yields or lease.suspended)
        ]
        kept = [(kept.job, kept.pool, kept.amounts) for kept in self.nominations.values()]
        return sum(
            amounts.get(key, 0)
            for job, pool, amounts in (*held, *kept)
            if account.counts(job, pool) and not (firm and job.preemptible)
        )

    def _held(self, account: Account, key: str) -> int:
        """What leases hold, those that yield included: what a limit is held against at every moment (R17)."""
        return sum(lease.amounts.get(key, 0) for lease in self.leases.values() if account.counts(lease.job, lease.pool))

    def _usable(self, pool: str, key: str) -> int:
        document = self.pools[pool]
        there = [node for name, node in self.nodes.items() if name not in self.away and self._belongs(node, pool)]
        has = {
            "gpu": sum(len(node.get("devices", ())) for node in there) * GPU_UNITS,
            "cpu": sum(node["cpu"] for node in there),
            "memory": sum(node["memory"] for node in there),
            **({key: 0} if key.startswith("gpu:") else {}),
        }
        for node in there:
            of_model = f"gpu:{_model_of(node)}"
            has[of_model] = has.get(of_model, 0) + len(node.get("devices", ())) * GPU_UNITS
        ceiling = document.get("capacity", {}).get(key)
        return min(has.get(key, ceiling or 0), ceiling if ceiling is not None else has.get(key, 0))

    def _belongs(self, node: Json, pool: str) -> bool:
        labels = node.get("labels", {})
        matching = [name for name, document in self.pools.items() if document["selector"].items() <= labels.items()]
        return bool(matching) and min(matching) == pool

    # The promises.

    def _check_place(self, lease: Lease) -> None:
        node = self.nodes.get(lease.node)
        if node is None or lease.node in self.away or lease.node in self.cordoned or not self._belongs(node, lease.pool):
            self._complain(f"{lease.job.key} is granted node {lease.node}, which is not in service in pool {lease.pool}")
            return
        self._check_owner(lease, node)
        self._check_maintenance(lease)
        there = [other for other in self.leases.values() if other.node == lease.node]
        cut = {device["device"] for device in node["devices"] if device.get("mig")}
        if lease.devices.keys() & cut != lease.slices.keys():
            self._complain(f"{lease.job.key} holds {lease.slices} on {lease.node}, where {sorted(cut)} are cut")
        for device in lease.slices:
            model = next(known["model"] for known in node["devices"] if known["device"] == device)
            self._check_slices(lease, device, model, [other.slices[device] for other in there if device in other.slices])
        for device in lease.devices.keys() - lease.slices.keys():
            held = [other.devices[device] for other in there if device in other.devices]
            if sum(held) > GPU_UNITS or (GPU_UNITS in held and len(held) > 1):
                self._complain(f"{lease.node}/{device} is held by {held}")
            if all(known["device"] != device for known in node["devices"]):
                self._complain(f"{lease.node} has no {device}")
        for key in ("cpu", "memory"):
            if sum(other.amounts.get(key, 0) for other in there) > node[key]:
                self._complain(f"{lease.node} has {node[key]} {key}, less than its leases hold")
        if sum(lease.devices.values()) != lease.amounts.get("gpu", 0):
            self._complain(f"{lease.job.key} holds other devices than it is charged for")

    def _check_owner(self, lease: Lease, node: Json) -> None:
        """A dedicated node takes jobs of its owner only (R21)."""
        document, labels = self.pools[lease.pool], node.get("labels", {})
        by_label = [one["to"] for one in document.get("dedicated", ()) if one["selector"].items() <= labels.items()]
        owner = next(iter(by_label), document.get("dedicated_to"))
        tenant, policy = lease.job.policy
        if owner not in (None, {"tenant": tenant}, {"policy": f"{tenant}/{policy}"}):
            self._complain(f"{lease.job.key} is granted {lease.node}, which is dedicated to {owner}")

    def _check_slices(self, lease: Lease, device: str, model: str, there: list[tuple[str, int]]) -> None:
        """No two slices share a memory slice, no more compute slices are held than there are, and the charge is the greater share (R4).

        Where another model has another slice of that name, it may be the share of that, if that is greater.
        """
        if not _can_be_cut(model, there):
            self._complain(f"{lease.node}/{device} is cut into {there}")
        name, charged = lease.slices[device][0], lease.devices[device]
        cut = [one["model"] for node in self.nodes.values() for one in node["devices"] if one.get("mig")]
        others = set() if lease.job.by_model else set(cut)
        if charged not in {_charge_of(name, one) for one in {model, *others}} or charged < _charge_of(name, model):
            self._complain(f"{lease.job.key} is charged {charged} for {lease.slices[device]}")

    def _held_in(self, pool: str, key: str) -> int:
        """What leases hold in a pool; a device that is cut counts with at most one GPU (R4)."""
        held, cut = 0, Counter[tuple[str, str]]()
        for lease in self.leases.values():
            if lease.pool == pool:
                slices = (
                    {device: lease.devices[device] for device in lease.slices}
                    if key.startswith("gpu") and key in lease.amounts
                    else {}
                )
                held += lease.amounts.get(key, 0) - sum(slices.values())
                cut.update({(lease.node, device): units for device, units in slices.items()})
        return held + sum(min(units, GPU_UNITS) for units in cut.values())

    def _check_accounts(self, job: Job, pool: str, granted: set[str]) -> None:
        """After a grant of these keys: no policy is beyond the pool, a limit, or, where it cannot yield, a reservation.

        What is held only grows by grants, so a limit that holds at each of them holds at every moment, during graces too; what will be held
        once those who yield have left is within as well, but for one for whom it was kept (R17).
        """
        governed = self._governed(pool)
        if not job.promised:  # what was kept for it was within when it was ordered (R27)
            self._check_firm(job, pool, granted, "is granted")
            self._check_unborrowed(job, pool, granted, "is granted")
        for key in governed:
            held = self._held_in(pool, key)
            if key in granted and held > self._usable(pool, key):
                self._complain(f"pool {pool} has {self._usable(pool, key)} {key}, its leases hold {held}")
        beyond = job.key.split(".")[1] in self.policies[job.policy].get("beyond_limit", ())
        for account in self._accounts(job.policy, pool):
            for key in governed & granted:
                used = 0 if job.promised and self.amended else self._used(account, key)
                used = max(used, self._held(account, key)) if self.amended else used
                if key in account.limit and used > account.limit[key] and not (beyond and account.policy is not None):
                    self._complain(f"{account} is granted {job.key} and uses {used} {key}")

    def _check_firm(self, job: Job, pool: str, keys: set[str], act: str) -> None:
        """What cannot be taken back is inside the reservation (R13, R17), of each key that the pool governs."""
        for account in self._accounts(job.policy, pool):
            for key in self._governed(pool) & keys:
                firm = self._used(account, key, firm=True)
                if not job.preemptible and account.reservation is not None and firm > account.reserved(key):
                    self._complain(f"{account} {act} {job.key}, cannot take back {firm} {key}")

    def _check_unborrowed(self, job: Job, pool: str, keys: set[str], act: str) -> None:
        """What starts from a queue that does not borrow is inside the reservation, of each key that the pool governs (R12)."""
        links = self.policies[job.policy].get("profiles", ())
        if not job.preemptible or all(link["name"] != job.profile or link.get("borrow", True) for link in links):
            return
        for account in self._accounts(job.policy, pool):
            for key in self._governed(pool) & keys:
                used = self._used(account, key)
                if account.reservation is not None and used > account.reserved(key):
                    self._complain(f"{account} {act} {job.key}, does not borrow for it and uses {used} {key}")

    def _check_own_limit(self, job: Job, pool: str) -> None:
        """A policy's own limit never preempts (R23): with what is kept for it the preemptor is within.

        Under its tenant's it is once those have left who have been told to, for whatever cause.
        """
        beyond = job.key.split(".")[1] in self.policies[job.policy].get("beyond_limit", ())
        for account in self._accounts(job.policy, pool):
            leave = [
                lease
                for lease in self.leases.values()
                if account.policy is None and lease.job.stops and not lease.job.yields and account.counts(lease.job, lease.pool)
            ]
            for key in self._governed(pool) & {key for key, value in job.total.items() if value}:
                used = self._used(account, key) - sum(lease.amounts.get(key, 0) for lease in leave)
                if key in account.limit and used > account.limit[key] and not (beyond and account.policy is not None):
                    self._complain(f"{account} takes back for {job.key} and would use {used} {key}")

    def _check_kept(self, job: Job, name: str) -> None:
        """What is kept for preemptors on a node is free, or will be when those who stop have left (R26, R27)."""
        stay = [lease for lease in self.leases.values() if lease.node == name and not lease.job.stops and not lease.job.yields]
        kept = [place for kept in self.nominations.values() for place in kept.places if place["node"] == name]
        for known in self.nodes[name]["devices"]:
            device = known["device"]
            shares = [share for place in kept for share in place.get("devices", ()) if share["device"] == device]
            slices = [(share["mig"], share.get("start", 0)) for share in shares if "mig" in share]
            cut = [lease.slices[device] for lease in stay if device in lease.slices] + slices
            units = [lease.devices[device] for lease in stay if device in lease.devices and device not in lease.slices]
            units += [share["units"] for share in shares if "mig" not in share]
            if shares and (not _can_be_cut(known["model"], cut) or sum(units) > (0 if cut else GPU_UNITS)):
                self._complain(f"{name}/{device} is kept for {job.key}, and held by others who stay")

    def _check_gang(self, job: Job, leases: list[Json]) -> None:
        ranks = [lease.get("rank", 0) for lease in leases]
        if ranks != list(range(job.replicas)) or len({lease["pool"] for lease in leases}) > 1:
            self._complain(f"{job.key} has {job.replicas} replicas, one record grants {ranks}")
        self._check_topology(job, leases[0]["pool"], {lease["node"] for lease in leases})
        self._check_memory(job, leases)
        for lease in leases:
            of_model = f"gpu:{_model_of(self.nodes[lease['node']])}"
            charged = lease["amounts"].get("gpu", 0)
            if not job.promised and of_model in self._governed(lease["pool"]) and lease["amounts"].get(of_model, 0) != charged:
                self._complain(f"{job.key} holds {charged} of {of_model}, and is not charged for the model (R43)")
            if lease["amounts"] != {**job.request, **({"job": 1} if not lease.get("rank", 0) else {})}:
                self._complain(f"{job.key} asks for {job.request} and is granted {lease['amounts']}")

    def _check_memory(self, job: Job, places: list[Json]) -> None:
        """All replicas get the share of one GPU model that the job was admitted with, and it has the memory that it asks for (R42)."""
        if not job.shares:
            return
        kinds = {(self.nodes[place["node"]]["devices"][0]["model"], *_share(place)) for place in places}
        known = {(share["model"], share["gpu"], share.get("mig", "")): share for share in job.shares}
        if len(kinds) != 1 or not kinds <= known.keys():
            self._complain(f"{job.key} gets {sorted(kinds)}, and may get one of {sorted(known)} (R42)")
            return
        model, units, mig = min(kinds)
        job.request = _of_model(job, model, units)
        for place in places if job.memory else ():
            has = self.nodes[place["node"]]["devices"][0]["memory"]
            part = Fraction(_sizes(mig, model, _slices_of(model)[1])[1], _slices_of(model)[1]) if mig else None
            given = has * part * Fraction(9, 10) if part is not None else Fraction((has - 1024) * units, GPU_UNITS)
            if (has if units == GPU_UNITS and not mig else given) < job.memory:
                self._complain(f"{job.key} asks for {job.memory} MiB of GPU memory and gets {given} (R42)")

    def _check_topology(self, job: Job, pool: str, nodes: set[str]) -> None:
        """All nodes of a gang have one value of the label that it requires, and one of each wider one (R40)."""
        levels = self.pools[pool].get("topology", [])
        if not job.required:
            return
        wider = levels[: levels.index(job.required) + 1] if job.required in levels else []
        paths = {tuple(self.nodes[node].get("labels", {}).get(level, "") for level in wider) for node in nodes}
        if len(paths) != 1 or not wider or "" in min(paths):
            self._complain(f"{job.key} requires one {job.required} and gets {sorted(paths)} (R40)")

    def _check_victim(self, victim: Job, pool: str) -> None:
        held = self._held_by(victim)
        if any(lease.suspended for lease in held):
            self._complain(f"{victim.key} is suspended, and has nothing to yield")
        if not held or not victim.preemptible or victim.yields or any(lease.pool != pool for lease in held):
            self._complain(f"{victim.key} is no job that could yield in pool {pool}")
        needed = max(victim.min_runtime, self.policies[victim.policy].get("preemption", {}).get("min_runtime", 0))
        served = self.now - max(victim.started.values()) if len(victim.started) == victim.replicas else -1
        if needed and served < needed:
            self._complain(f"{victim.key} has run {served} us, its minimum is {needed}")

    def _check_reclaim(self, job: Job, victims: list[Job], pool: str) -> None:
        """The preemptor's side stays inside its reservation; each victim's side is above when it is taken, in some order (R23, R26)."""
        governed = self._governed(pool)
        for victim in victims:
            for account in self._side(job.policy, victim.policy, pool):
                for key in governed & {key for key, value in job.total.items() if value}:
                    if self._used(account, key) + job.total[key] > account.reserved(key):
                        self._complain(f"{job.key} reclaims {key} beyond the reservation of {account}")
        idle = [victim for victim in victims if self._yields_idle(victim)]
        waiting = [victim for victim in victims if victim not in idle]
        while waiting:
            last = next((victim for victim in waiting if self._is_above(victim, job, pool, [*waiting, *idle])), None)
            if last is None:
                names = ", ".join(victim.key for victim in waiting)
                self._complain(f"{names} yield to {job.key}, but their side is inside its reservation")
                return
            waiting.remove(last)

    def _yields_idle(self, victim: Job) -> bool:
        """Whether all leases of the victim are marked as idle, and its policy says that those yield (R39)."""
        policy, held = self.policies[victim.policy], {rank for key, rank in self.leases if key == victim.key}
        return policy.get("idle") == "yield" and "idle_after" in policy and victim.idle >= held

    def _lease_idled(self, fact: Json) -> None:
        job, rank = self._job_of(fact), fact.get("rank", 0)
        if job is None or (job.key, rank) not in self.leases:
            return
        if not job.preemptible:
            self._complain(f"{job.key} is not preemptible and marked as idle")
        if fact["idle_for"] < self.policies[job.policy].get("idle_after", 0):
            self._complain(f"{job.key} is marked as idle after {fact['idle_for']} us")
        job.idle.add(rank)

    def _lease_used(self, fact: Json) -> None:
        if (job := self._job_of(fact)) is not None:
            job.idle.discard(fact.get("rank", 0))

    def _is_above(self, victim: Job, job: Job, pool: str, together: list[Job]) -> bool:
        """Whether the victim's side is above its reservation on a key that it holds and the preemptor asks for, with the others gone."""
        side = self._lending(victim.policy, job.policy, pool)
        asked = {key for key, value in (job if self.amended else victim).total.items() if value}

        def left(account: Account, key: str) -> int:
            gone = [other for other in together if other is not victim and account.counts(other, pool)]
            return self._used(account, key) - sum(other.total.get(key, 0) for other in gone)

        return any(
            all(left(account, key) > account.reserved(key) for account in side)
            for key in self._governed(pool) & asked & {key for key, value in victim.total.items() if value}
        )

    def _check_priority(self, job: Job, victims: list[Job], pool: str) -> None:
        """Same tenant, lower priority, and none of them could come and take its units back (R26)."""
        for victim in victims:
            lower = self.policies[victim.policy].get("priority", 0) < self.policies[job.policy].get("priority", 0)
            if victim.policy[0] != job.policy[0] or not lower:
                self._complain(f"{victim.key} yields by priority to {job.key}")
            gone = [other for other in victims if other.policy == victim.policy and other is not victim]
            if not any(
                self._used(account, key) - sum(other.total.get(key, 0) for other in gone) > account.reserved(key)
                for account in self._side(victim.policy, job.policy, pool)
                for key in self._governed(pool) & {key for key, value in victim.total.items() if value}
            ):
                self._complain(f"{victim.key} yields by priority to {job.key} and could reclaim what it held")


def _model_of(node: Json) -> str:
    return "+".join(sorted({device["model"] for device in node.get("devices", ())}))


def _of_model(job: Job, model: str, units: int) -> Amounts:
    """What one replica asks for of GPUs of this model, charged by it or not (R43)."""
    rest = {key: amount for key, amount in job.request.items() if not key.startswith("gpu:")}
    return rest | {"gpu": units} | ({f"gpu:{model}": units} if job.by_model else {})


def _share(place: Json) -> tuple[int, str]:
    """Units and slice of one replica's share of a GPU."""
    shares = place.get("devices", [])
    return sum(share["units"] for share in shares), shares[0].get("mig", "") if shares else ""


def _charge_of(slice_: str, model: str) -> int:
    """The greater of a slice's shares of a device of this model (R4)."""
    has = _slices_of(model)
    compute, memory = _sizes(slice_, model, has[1])
    return max(GPU_UNITS * compute // has[0], GPU_UNITS * memory // has[1])


def _slices_of(model: str) -> tuple[int, int]:
    """Compute and memory slices of a whole device."""
    return (4, 4) if "A30" in model else (7, 8)


def _can_be_cut(model: str, slices: list[tuple[str, int]]) -> bool:
    """Whether (name, start) are slices of one device: none lies on another or sticks out, and there are compute slices enough (R4)."""
    compute, memory = _slices_of(model)
    cells = [cell for name, start in slices for cell in range(start, start + _sizes(name, model, memory)[1])]
    engines = sum(_sizes(name, model, memory)[0] for name, _ in slices)
    return len(set(cells)) == len(cells) and set(cells) <= set(range(memory)) and engines <= compute


def _sizes(name: str, model: str, memory_slices: int) -> tuple[int, int]:
    """Compute and memory slices of `3g.40gb` on a `H100-80GB`, worked out from the names alone."""
    compute, gigabytes = (int(number) for number in re.findall(r"(\d+)g", name)[:2])
    whole = int(re.findall(r"(\d+)GB", model)[0])
    return compute, round(gigabytes * memory_slices / whole)


def _add(total: Amounts, amounts: Amounts) -> None:
    for key, value in amounts.items():
        total[key] = total.get(key, 0) + value
