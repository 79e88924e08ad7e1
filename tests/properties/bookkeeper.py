"""Adds up who used how much, and what it costs, as any outsider could: from the bytes of the records alone, and the slow way.

Independent of the product on purpose: no meter, no sums, no fold. Everything that was ever held is kept; a question cuts time wherever
anything changed, and in each piece hands the reservation of each policy out anew, in R17's order. Integers and fractions only.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any, Protocol

Json = dict[str, Any]

TAKEN = {"preempted", "max_preemptions", "node_lost", "node_stopped", "drain", "start_timeout", "moved", "interrupted"}
SUSPENDED_FOR_NOTHING = {"suspend_max", "device_lost", "suspension_lost"}
"""Causes of the end of a suspended job whose work counts as lost from level 2 on."""
ONE = {"gpu": 126_000, "cpu": 1_000, "memory": 1_024}
HOUR = 3_600_000_000
GPU_UNITS = 126_000
AMENDED = 2
"""The level from which a lease is charged from its real start, and not from its grant, and work of suspended jobs can be lost."""
MEASURES = ("reserved", "borrowed", "idle", "suspended", "waiting", "kept", "provider_lost", "lost", "cost", "lost_cost")


class StoredMessage(Protocol):
    subject: str
    payload: bytes


@dataclass(eq=False)
class Job:
    key: str
    policy: str
    group: str
    profile: str
    service_account: bool
    asks: dict[str, int]
    preemptible: bool
    labels: dict[str, str]
    attempt: int = 0
    waits_since: int | None = None
    is_element: bool = False
    over: bool = False
    share: int = 0
    """Units of GPU that one replica asks for."""

    @property
    def waits_in_the_books(self) -> bool:
        """Whether its wait is in the books before it ends; that of an element of an array is not until it was granted something once."""
        return self.waits_since is not None and bool(self.attempt or not self.is_element)

    def names(self, fields: Sequence[str], lease: Lease | None) -> tuple[str, ...]:
        tenant, user, _ = self.key.split(".")
        group, service = (lease.group, lease.service_account) if lease else (self.group, self.service_account)
        known = {
            "tenant": tenant,
            "group": group,
            "user": user,
            "service_account": user if service else "",
            "pool": lease.pool if lease else "",
            "policy": self.policy,
            "profile": self.profile,
            "queue": f"{self.policy}/{self.profile}",
            "node": lease.node if lease else "",
            "job": self.key,
        }
        return tuple(
            self.labels.get(name.removeprefix("label:"), "") if name.startswith("label:") else known[name] for name in fields
        )


@dataclass(eq=False)
class Lease:
    job: Job
    number: int
    attempt: int
    node: str
    pool: str
    group: str
    service_account: bool
    amounts: dict[str, int]
    over_budget: bool
    granted: int
    latest: int
    started: int | None = None
    saved: int | None = None
    exited: int | None = None
    ended: int | None = None
    lost: tuple[int, int] | None = None
    devices: Sequence[Json] = ()
    away: list[list[int | None]] = field(default_factory=list)
    """Suspensions."""
    charged: int | None = None
    """Since when it is charged."""
    resuming: bool = False

    def advance(self, at: int, now: int) -> int:
        self.latest = max(self.latest, min(at, now))
        return self.latest

    def holds(self, key: str, moment: int) -> bool:
        if self.charged is None or not (self.charged <= moment and (self.ended is None or moment < self.ended)):
            return False
        return not key.startswith("gpu") or not self.is_away(moment)

    def is_starting(self, moment: int) -> bool:
        ends = self.ended if self.charged is None else self.charged
        return self.granted <= moment and (ends is None or moment < ends)

    def is_away(self, moment: int) -> bool:
        return any(since <= moment and (until is None or moment < until) for since, until in self.away)

    @property
    def is_suspended(self) -> bool:
        """Now, as far as is known."""
        return bool(self.away) and self.away[-1][1] is None

    @property
    def has_devices(self) -> bool:
        """A lease that resumes has them again from the order on."""
        return not self.is_suspended or self.resuming

    @property
    def place(self) -> tuple[bool, int]:
        """In R17's order."""
        return self.job.preemptible, self.number


@dataclass(eq=False)
class Kept:
    """Places that are kept for a job in a pool: nominated for it, or held back."""

    job: Job
    pool: str
    since: int
    places: Sequence[Json]
    names: tuple[str, bool]
    nominated: bool


class Bookkeeper:
    """`read` every record, then `account`."""

    def __init__(self) -> None:
        self.now = 0
        self.until = 0
        """Up to where is counted: the time of the ledger, or the moment after it where a suspension took no time at all."""
        self.first = 0
        self.sequence = 0
        self.level = 1
        self.jobs: dict[str, Job] = {}
        self.arrays: dict[str, list[str]] = {}
        self.leases: dict[tuple[str, int, int], Lease] = {}
        self.waits: list[tuple[Job, int, int]] = []
        self.groups: dict[tuple[str, str], Json] = {}
        self.group_of: dict[tuple[str, str], str] = {}
        self.reservations: list[tuple[int, int, str, str, dict[str, int], str]] = []
        self.pools: dict[str, Json] = {}
        self.tenants: dict[str, Json] = {}
        self.prices: list[tuple[int, dict[str, Json], dict[str, Json]]] = []
        self.nodes: dict[str, Json] = {}
        self.up: set[str] = set()
        self.leaving: set[str] = set()
        """Nodes that were removed while something was held or kept on them."""
        self.released: set[str] = set()
        """Nodes whose instance is to end."""
        self.unfit: set[tuple[str, str]] = set()
        self.kept: dict[str, Kept] = {}
        self.keeping: dict[tuple[str, str, str], tuple[int, int, Lease]] = {}
        """(job, node, key): since when how many units are kept, on which name."""
        self.was_kept: list[tuple[Lease, str, int, int, int]] = []

    def read_all(self, messages: Iterable[StoredMessage]) -> Bookkeeper:
        for message in messages:
            self.read(message)
        return self

    def read(self, message: StoredMessage) -> None:
        self.sequence += 1
        try:
            record = json.loads(message.payload)
        except ValueError:
            return
        self.now = max(self.now, record["now"])
        self.until = max(self.until, self.now)
        self.first = self.first or record["now"]
        for place, fact in enumerate(record["facts"]):
            handler = getattr(self, "_" + fact["type"].removesuffix(".v1").replace(".", "_"), None)
            if handler is not None:
                handler(fact, record, self.sequence * 1_000 + place)
        self._forget_nodes()
        self._keep()

    # What was written.

    def _installation_level(self, fact: Json, _record: Json, _number: int) -> None:
        self.level = max(self.level, fact["level"])

    def _group_applied(self, fact: Json, _record: Json, _number: int) -> None:
        self.groups[fact["group"].get("tenant", "default"), fact["group"]["name"]] = fact["group"]

    def _group_deleted(self, fact: Json, _record: Json, _number: int) -> None:
        self.groups.pop((fact["tenant"], fact["name"]), None)

    def _policy_applied(self, fact: Json, record: Json, number: int) -> None:
        policy = fact["policy"]
        tenant, group = policy.get("tenant", "default"), policy.get("group", "")
        self.group_of[tenant, policy["name"]] = group
        self.reservations.append((record["now"], number, tenant, policy["name"], policy.get("reservation") or {}, group))

    def _policy_deleted(self, fact: Json, record: Json, number: int) -> None:
        self.reservations.append((record["now"], number, fact["tenant"], fact["name"], {}, ""))

    def _pool_applied(self, fact: Json, _record: Json, _number: int) -> None:
        self.pools = self.pools | {fact["pool"]["name"]: fact["pool"]}
        self.prices.append((self.now, self.pools, self.tenants))

    def _tenant_applied(self, fact: Json, _record: Json, _number: int) -> None:
        self.tenants = self.tenants | {fact["tenant"]["name"]: fact["tenant"]}
        self.prices.append((self.now, self.pools, self.tenants))

    def rates(self, moment: int, pool: str, tenant: str, key: str) -> tuple[Fraction, Fraction]:
        """Of an hour of the key: on demand, and inside a reservation."""
        prices = [(pools, tenants) for since, pools, tenants in self.prices if since <= moment]
        pools, tenants = prices[-1] if prices else ({}, {})
        shares = tenants.get(tenant, {}).get("shares", ())
        own = next((share for share in shares if share["pool"] == pool), {})
        general = pools.get(pool, {})
        on_demand = own.get("price", {}).get(key) or general.get("price", {}).get(key) or "0"
        reserved = (
            own.get("reserved_price", {}).get(key)
            or own.get("price", {}).get(key)
            or general.get("reserved_price", {}).get(key)
            or on_demand
        )
        return Fraction(on_demand), Fraction(reserved)

    # What became of jobs.

    def _job_admitted(self, fact: Json, _record: Json, _number: int) -> None:
        key = fact["job"]
        if key in self.jobs or key in self.arrays:
            return
        if "array" not in fact:
            self._admit(key, fact)
            return
        array = fact["array"]
        indices = range(array["first"], array["last"] + 1, array.get("step", 1))
        self.arrays[key] = [f"{key}-{index:06}" for index in indices]
        for name in self.arrays[key]:
            self._admit(name, fact)

    def _admit(self, name: str, fact: Json) -> None:
        tenant, user, _ = name.split(".")
        self.jobs[name] = Job(
            name,
            fact["policy"],
            self.group_of[tenant, fact["policy"]],
            fact["profile"],
            self._is_service_account(tenant, user),
            {key: units * fact.get("replicas", 1) for key, units in fact["request"].items()} | {"job": 1},
            fact.get("preemptible", True),
            fact.get("labels", {}),
            waits_since=self.now,
            is_element="array" in fact,
            share=fact["request"].get("gpu", 0),
        )

    def _job_matched(self, fact: Json, _record: Json, _number: int) -> None:
        """It waits for another share of a GPU from now on; what it waited for before was counted as what it asks for at the end (R42)."""
        elements = self.arrays.get(fact["job"])
        for key in (fact["job"],) if elements is None else elements:
            job, there = self.jobs[key], self.kept.get(key)
            if there is not None and there.nominated:
                continue  # it gets the model of its places
            if elements is None or not (job.over or job.attempt):
                self.kept.pop(key, None)
                replicas = job.asks["gpu"] // job.share
                job.share = fact["shares"][0]["gpu"]
                job.asks = job.asks | {"gpu": job.share * replicas}

    def _never_granted(self, fact: Json) -> list[Job]:
        """Elements of an array that a fact is about and that were never granted anything."""
        ranges = fact.get("elements", [[0, 999_999]])
        named = (self.jobs[key] for key in self.arrays[fact["job"]] if any(a <= int(key[-6:]) <= b for a, b in ranges))
        return [job for job in named if not job.over and not job.attempt]

    def _is_service_account(self, tenant: str, user: str) -> bool:
        groups = (group for (owner, _), group in self.groups.items() if owner == tenant)
        return any(user in group.get("service_accounts", ()) for group in groups)

    def _lease_granted(self, fact: Json, record: Json, number: int) -> None:
        job, rank = self.jobs[fact["job"]], fact.get("rank", 0)
        if job.over or (job.waits_since is None and fact["attempt"] != job.attempt) or self._is_left(fact["node"]):
            return
        if job.waits_since is not None:
            self._wait_ends(job, record["now"])
            job.attempt = fact["attempt"]
        tenant, user, _ = job.key.split(".")
        self.leases[job.key, fact["attempt"], rank] = Lease(
            job,
            number,
            fact["attempt"],
            fact["node"],
            fact["pool"],
            self.group_of[tenant, job.policy],
            self._is_service_account(tenant, user),
            fact["amounts"],
            fact.get("over_budget", False),
            record["now"],
            record["now"],
            devices=fact.get("devices", ()),
            charged=record["now"] if self.level < AMENDED else None,
        )
        self.kept.pop(job.key, None)

    def _wait_ends(self, job: Job, at: int) -> None:
        if job.waits_since is not None:
            self.waits.append((copy(job), job.waits_since, at))
            job.waits_since = None

    def _held(self, fact: Json) -> Lease | None:
        lease = self.leases.get((fact["job"], fact["attempt"], fact.get("rank", 0)))
        return lease if lease is not None and lease.ended is None else None

    def _attempt(self, fact: Json) -> list[Lease]:
        return [lease for (job, attempt, _), lease in self.leases.items() if (job, attempt) == (fact["job"], fact["attempt"])]

    def _lease_started(self, fact: Json, record: Json, _number: int) -> None:
        lease = self._held(fact)
        if lease is not None and lease.started is None:
            lease.started = lease.advance(fact["at"], record["now"])
            gang = self._attempt(fact)
            if all(each.started is not None and each.ended is None for each in gang):
                runs = max(each.started for each in gang if each.started is not None)
                for each in gang:
                    if each.charged is None:
                        each.charged = each.latest = max(each.latest, runs)

    def _lease_rung(self, fact: Json, record: Json, _number: int) -> None:
        lease = self._held(fact)
        if lease is not None:
            lease.advance(fact["at"], record["now"])

    def _checkpoint_registered(self, fact: Json, record: Json, _number: int) -> None:
        for lease in self._attempt(fact):
            if lease.ended is None:
                lease.saved = max(lease.latest, min(fact["at"], record["now"]))
                if record["by"] == f"node.{lease.node}":
                    lease.advance(fact["at"], record["now"])

    def _lease_suspended(self, fact: Json, record: Json, _number: int) -> None:
        lease = self._held(fact)
        if lease is not None and lease.charged is not None and lease.amounts.get("gpu") and not lease.is_suspended:
            lease.resuming = False
            lease.away.append([lease.advance(fact["at"], record["now"]), None])

    def _resume_ordered(self, fact: Json, record: Json, _number: int) -> None:
        for lease in self._attempt(fact):
            if lease.is_suspended and lease.ended is None:
                lease.resuming = True
                if self.level < AMENDED:
                    self._resumes(lease, record["now"])

    def _lease_resumed(self, fact: Json, record: Json, _number: int) -> None:
        lease = self._held(fact)
        if lease is not None and lease.resuming and lease.is_suspended:
            self._resumes(lease, min(fact["at"], record["now"]))

    def _resumes(self, lease: Lease, at: int) -> None:
        lease.latest = max(lease.latest + 1, at)
        lease.away[-1][1] = lease.latest
        lease.resuming = False
        self.until = max(self.until, lease.latest)

    def _lease_ended(self, fact: Json, record: Json, _number: int) -> None:
        lease = self._held(fact)
        if lease is not None:
            lease.exited = lease.advance(min(fact["exited_at"], fact["at"]), record["now"])
            self._ends(lease, lease.advance(fact["at"], record["now"]))

    def _lease_revoked(self, fact: Json, record: Json, _number: int) -> None:
        lease = self._held(fact)
        if lease is not None:
            lease.exited = lease.advance(record["now"], record["now"])
            self._ends(lease, lease.exited)

    def _ends(self, lease: Lease, at: int) -> None:
        lease.ended = at
        if lease.away and lease.away[-1][1] is None:
            lease.away[-1][1] = at

    def _settle(self, fact: Json) -> bool:
        """Whether it held leases, and all have ended; the work that nothing saved is lost."""
        leases = self._attempt(fact)
        if not leases or any(lease.ended is None for lease in leases):
            return False
        causes = TAKEN | SUSPENDED_FOR_NOTHING if self.level >= AMENDED else TAKEN
        for lease in leases:
            if fact["cause"] in causes and lease.started is not None and lease.exited is not None:
                saved = max(lease.started, lease.saved or 0)
                lease.lost = (saved, lease.exited) if saved < lease.exited else None
        return True

    def _job_requeued(self, fact: Json, _record: Json, _number: int) -> None:
        job = self.jobs[fact["job"]]
        if not job.over and job.waits_since is None and self._settle(fact):
            job.waits_since = self.now

    def _job_ended(self, fact: Json, _record: Json, _number: int) -> None:
        if fact["job"] in self.arrays:
            for element in self._never_granted(fact):
                self._over(element)
            return
        job = self.jobs[fact["job"]]
        if job.over or any(lease.ended is None for lease in self._attempt({"job": job.key, "attempt": job.attempt})):
            return
        if job.waits_since is None:
            self._settle(fact)
        self._over(job)

    def _job_dismissed(self, fact: Json, record: Json, number: int) -> None:
        if fact["job"] in self.arrays:
            self._job_ended(fact, record, number)
            return
        job = self.jobs[fact["job"]]
        if job.waits_since is not None:
            self._over(job)

    def _over(self, job: Job) -> None:
        self.kept.pop(job.key, None)
        self._wait_ends(job, self.now)
        job.over = True

    # What is kept for whom.

    def _node_registered(self, fact: Json, _record: Json, _number: int) -> None:
        self.nodes[fact["node"]] = fact
        self.up.add(fact["node"])
        self.leaving.discard(fact["node"])
        self.unfit = {place for place in self.unfit if place[0] != fact["node"]}
        self.unfit |= {(fact["node"], device["device"]) for device in fact["devices"] if device.get("unfit")}

    def _node_stopped(self, fact: Json, _record: Json, _number: int) -> None:
        self.up.discard(fact["node"])

    _node_lost = _node_stopped

    def _node_removed(self, fact: Json, _record: Json, _number: int) -> None:
        self.up.discard(fact["node"])
        self.leaving.add(fact["node"])

    def _instance_released(self, fact: Json, _record: Json, _number: int) -> None:
        """Behind this nothing is granted on its node, unless it was to leave because nothing ran there, and something does (R38)."""
        held = any(lease.node == fact["instance"] and lease.ended is None for lease in self.leases.values())
        if not (held and fact["cause"] in ("idle", "unused")):
            self.released.add(fact["instance"])

    def _is_left(self, node: str) -> bool:
        return node not in self.nodes or node in self.released

    def _instance_ended(self, fact: Json, record: Json, number: int) -> None:
        """Its node has its name, and is removed with it (R38)."""
        self._node_removed({"node": fact["instance"]}, record, number)

    def _forget_nodes(self) -> None:
        """Removed nodes are gone once nothing is held or kept on them: what is granted there has no effect (R38)."""
        if not self.leaving:
            return
        needed = {lease.node for lease in self.leases.values() if lease.ended is None}
        needed |= {place["node"] for kept in self.kept.values() for place in kept.places}
        for node in self.leaving - needed:
            self.nodes.pop(node, None)
        self.leaving &= needed

    def _device_drained(self, fact: Json, _record: Json, _number: int) -> None:
        self.unfit.add((fact["node"], fact["device"]))

    def _device_returned(self, fact: Json, _record: Json, _number: int) -> None:
        self.unfit.discard((fact["node"], fact["device"]))

    def _preemption_ordered(self, fact: Json, _record: Json, _number: int) -> None:
        job = self.jobs.get(fact["job"])
        if job is None or job.over or job.waits_since is None:
            return
        there = self.kept.get(job.key)
        if there is None or not there.nominated:
            self.kept[job.key] = self._kept_for(job, fact, nominated=True)

    def _move_ordered(self, fact: Json, _record: Json, _number: int) -> None:
        """Places are kept for it although it does not wait yet: it is still to leave where it was suspended (R29)."""
        job = self.jobs.get(fact["job"])
        if job is not None and not job.over and job.waits_since is None:
            self.kept[job.key] = self._kept_for(job, fact, nominated=True)

    def _nomination_ended(self, fact: Json, _record: Json, _number: int) -> None:
        there = self.kept.get(fact["job"])
        if there is not None and there.nominated:
            del self.kept[fact["job"]]

    def _hold_placed(self, fact: Json, _record: Json, _number: int) -> None:
        job = self.jobs.get(fact["job"])
        there = self.kept.get(fact["job"])
        if job is not None and not job.over and job.waits_since is not None and (there is None or not there.nominated):
            self.kept[job.key] = self._kept_for(job, fact, nominated=False)

    def _hold_lifted(self, fact: Json, _record: Json, _number: int) -> None:
        there = self.kept.get(fact["job"])
        if there is not None and not there.nominated and there.pool == fact["pool"]:
            del self.kept[fact["job"]]

    def _kept_for(self, job: Job, fact: Json, *, nominated: bool) -> Kept:
        names = (job.group, job.service_account)
        return Kept(job, fact["pool"], self.now, fact.get("places", ()), names, nominated)

    def _keep(self) -> None:
        """The part of every place that is not held now: first for whom it has been kept longest."""
        if not self.kept and not self.keeping:
            return
        found: dict[tuple[str, str, str], tuple[int, Lease]] = {}
        taken = self._taken()
        for kept in sorted(self.kept.values(), key=lambda kept: (kept.since, kept.job.key)):
            for place in kept.places:
                if place["node"] in self.up:
                    for key, units in self._free_of(place, taken):
                        there = found.get((kept.job.key, place["node"], key), (0, self._whose(kept, place["node"])))
                        found[kept.job.key, place["node"], key] = (there[0] + units, there[1])
        for cell in self.keeping.keys() | found.keys():
            was, now = self.keeping.get(cell), found.get(cell)
            if was is not None and (now is None or was[1] != now[0] or was[2].pool != now[1].pool):
                self.was_kept.append((was[2], cell[2], was[0], self.now, was[1]))
                del self.keeping[cell]
            if now is not None and cell not in self.keeping:
                self.keeping[cell] = (self.now, *now)

    def _taken(self) -> dict[tuple[str, str], int]:
        """What leases hold, by node and device, and by node and key."""
        taken: dict[tuple[str, str], int] = defaultdict(int)
        for lease in self.leases.values():
            if lease.ended is None:
                for share in lease.devices if lease.has_devices else ():
                    taken[lease.node, share["device"]] += 0 if share.get("mig") else share["units"]
                for key in ("cpu", "memory"):
                    taken[lease.node, key] += lease.amounts.get(key, 0)
        return taken

    def _free_of(self, place: Json, taken: dict[tuple[str, str], int]) -> Iterator[tuple[str, int]]:
        """Of a place, what is free; from now on that is taken."""
        node = self.nodes[place["node"]]
        gpus = [key for key in place.get("amounts", {}) if key.startswith("gpu")]
        free_units = [self._free_units(node, share, taken) for share in place.get("devices", ())]
        units = [(key, free) for free in free_units for key in gpus]
        for key in ("cpu", "memory"):
            free = min(place.get("amounts", {}).get(key, 0), max(0, node[key] - taken[node["node"], key]))
            taken[node["node"], key] += free
            units.append((key, free))
        yield from (each for each in units if each[1])

    def _free_units(self, node: Json, share: Json, taken: dict[tuple[str, str], int]) -> int:
        device = next((one for one in node["devices"] if one["device"] == share["device"]), None)
        if device is None or (node["node"], share["device"]) in self.unfit:
            return 0
        if share.get("mig"):
            return share["units"] if device.get("mig") and not self._is_cut(node["node"], share, device["model"]) else 0
        left = max(0, GPU_UNITS - taken[node["node"], share["device"]])
        taken[node["node"], share["device"]] += min(share["units"], left)
        return min(share["units"], left)

    def _is_cut(self, node: str, share: Json, model: str) -> bool:
        """Whether a slice that is held lies where this one is to be."""
        begins, ends = _extent(share, model)
        for lease in self.leases.values():
            for other in lease.devices if lease.node == node and lease.ended is None and lease.has_devices else ():
                if other["device"] == share["device"] and other.get("mig"):
                    since, until = _extent(other, model)
                    if since < ends and begins < until:
                        return True
        return False

    def _whose(self, kept: Kept, node: str) -> Lease:
        """As if the job held it."""
        group, service = kept.names
        return Lease(kept.job, 0, 0, node, kept.pool, group, service, {}, over_budget=False, granted=0, latest=0)

    def _all_kept(self) -> list[tuple[Lease, str, int, int, int]]:
        still = [(whose, cell[2], since, self.until, units) for cell, (since, units, whose) in self.keeping.items()]
        return [*self.was_kept, *still]

    # What it adds up to.

    def account(
        self, bounds: Sequence[int], fields: Sequence[str]
    ) -> dict[tuple[int, tuple[str, ...], str], dict[str, Fraction]]:
        """By the number of the period, names and key: everything that is not nothing."""
        found: dict[Any, dict[str, Fraction]] = defaultdict(lambda: dict.fromkeys(MEASURES, Fraction(0)))
        moments = self._moments(bounds)
        for period, (begins, ends) in enumerate(pairwise(bounds)):
            for since, until in pairwise(sorted({begins, ends, *(moment for moment in moments if begins < moment < ends)})):
                self.piece(found, period, ends, since, until - since, fields)
        return {place: line for place, line in sorted(found.items()) if any(line.values())}

    def charges(
        self, bounds: Sequence[int], fields: Sequence[str], kind: str
    ) -> dict[tuple[int, tuple[str, ...], str, tuple[Fraction, Fraction]], Fraction]:
        """What each account's period costs of what it `reserved`, or `borrowed`, at the same rates; the periods are cut at prices."""
        found: dict[Any, Fraction] = defaultdict(Fraction)
        moments = self._moments(bounds)
        for period, (begins, ends) in enumerate(pairwise(bounds)):
            for since, until in pairwise(sorted({begins, ends, *(moment for moment in moments if begins < moment < ends)})):
                for tenant, name in {(lease.job.key.split(".")[0], lease.job.policy) for lease in self.leases.values()}:
                    own = [
                        lease
                        for lease in self.leases.values()
                        if (lease.job.key.split(".")[0], lease.job.policy) == (tenant, name)
                    ]
                    for key in {key for lease in own for key in lease.amounts}:
                        for lease, covered in self._shares((tenant, name), key, own, since)[0].items():
                            units = covered if kind == "reserved" else lease.amounts[key] - covered
                            rates = self.rates(since, lease.pool, tenant, key)
                            rate = rates[1] if kind == "reserved" else rates[0]
                            place = (period, lease.job.names(fields, lease), key, self._priced_since(since))
                            found[place] += units * rate * (until - since) / (ONE.get(key.partition(":")[0], 1) * HOUR)
        return found

    def _priced_since(self, moment: int) -> int:
        return max((since for since, *_ in self.prices if since <= moment), default=0)

    def _moments(self, bounds: Sequence[int]) -> set[int]:
        moments = {since for since, *_ in self.reservations} | {since for since, *_ in self.prices} | set(bounds)
        for lease in self.leases.values():
            moments |= {lease.granted, lease.charged or lease.granted, lease.ended or self.until, *(lease.lost or ())}
            moments |= {moment if moment is not None else self.until for away in lease.away for moment in away}
        for _, since, until in self._all_waits():
            moments |= {since, until}
        for _, _, since, until, _ in self._all_kept():
            moments |= {since, until}
        return {moment for moment in moments if bounds[0] <= moment <= bounds[-1]}

    def _all_waits(self) -> list[tuple[Job, int, int]]:
        still = [(job, job.waits_since, self.until) for job in self.jobs.values() if job.waits_in_the_books]
        return [*self.waits, *still]

    def piece(self, found: Any, period: int, ends: int, moment: int, span: int, fields: Sequence[str]) -> None:
        """One stretch of time in which nothing changes."""
        for job, since, until in self._all_waits():
            if since <= moment < until:
                for key, units in job.asks.items():
                    found[period, job.names(fields, None), key]["waiting"] += units * span
        for whose, key, since, until, units in self._all_kept():
            if since <= moment < until:
                found[period, whose.job.names(fields, whose), key]["kept"] += units * span
        policies: dict[tuple[str, str], list[Lease]] = defaultdict(list)
        for lease in self.leases.values():
            policies[lease.job.key.split(".")[0], lease.job.policy].append(lease)
            if lease.is_starting(moment) and moment < self.until:
                for key, units in lease.amounts.items():
                    found[period, lease.job.names(fields, lease), key]["provider_lost"] += units * span
            if lease.is_away(moment) and moment < self.until:
                for key in (key for key in lease.amounts if key.startswith("gpu")):
                    found[period, lease.job.names(fields, lease), key]["suspended"] += lease.amounts[key] * span
        for policy in policies.keys() | {(tenant, name) for _, _, tenant, name, _, _ in self.reservations}:
            self._policy(found, period, policy, sorted(policies[policy], key=lambda lease: lease.place), moment, span, fields)
            self._idle(found, period, ends, policy, policies[policy], moment, span, fields)

    def _reserved(self, policy: tuple[str, str], key: str, moment: int) -> int:
        reservations = [row for row in self.reservations if row[2:4] == policy and row[0] <= moment]
        return max(reservations, key=lambda row: row[:2])[4].get(key, 0) if reservations else 0

    def _shares(self, policy: tuple[str, str], key: str, leases: list[Lease], moment: int) -> tuple[dict[Lease, int], int]:
        """Who is covered by how much of the reservation, and what is left of it."""
        left, covered = self._reserved(policy, key, moment), {}
        for lease in sorted(leases, key=lambda lease: lease.place):
            if lease.holds(key, moment) and lease.amounts.get(key):
                covered[lease] = 0 if lease.over_budget else min(left, lease.amounts[key])
                left -= covered[lease]
        return covered, left

    def _policy(
        self,
        found: Any,
        period: int,
        policy: tuple[str, str],
        leases: list[Lease],
        moment: int,
        span: int,
        fields: Sequence[str],
    ) -> None:
        if moment >= self.until:
            return
        for key in {key for lease in leases for key in lease.amounts}:
            for lease, covered in self._shares(policy, key, leases, moment)[0].items():
                line = found[period, lease.job.names(fields, lease), key]
                borrowed = lease.amounts[key] - covered
                on_demand, reserved = self.rates(moment, lease.pool, policy[0], key)
                cost = (covered * reserved + borrowed * on_demand) * span / (ONE.get(key.partition(":")[0], 1) * HOUR)
                line["reserved"] += covered * span
                line["borrowed"] += borrowed * span
                line["cost"] += cost
                if lease.lost is not None and lease.lost[0] <= moment < lease.lost[1]:
                    line["lost"] += lease.amounts[key] * span
                    line["lost_cost"] += cost

    def _idle(
        self,
        found: Any,
        period: int,
        ends: int,
        policy: tuple[str, str],
        leases: list[Lease],
        moment: int,
        span: int,
        fields: Sequence[str],
    ) -> None:
        rows = sorted(row for row in self.reservations if row[2:4] == policy and row[0] < ends)
        for key in {key for row in rows for key in row[4]}:
            group = [row[5] for row in rows if row[4].get(key)][-1:]
            known = {"tenant": policy[0], "policy": policy[1], "group": group[0] if group else ""}
            names = tuple(known.get(name, "") for name in fields)
            found[period, names, key]["idle"] += self._shares(policy, key, leases, moment)[1] * span


def _extent(share: Json, model: str) -> tuple[int, int]:
    """From which memory slice to which a MIG slice goes on a device of this model."""
    start = share.get("start", 0)
    return start, start + memory_slices(share["mig"], model)


def memory_slices(name: str, model: str) -> int:
    """Memory slices of a MIG slice such as `3g.40gb` on a device such as `H100-80GB`, worked out from the names alone."""
    gigabytes, whole = (int(re.findall(r"(\d+)gb", text.lower())[0]) for text in (name, model))
    return round(gigabytes * (4 if model.startswith("A30") else 8) / whole)
