"""What happens in one run, as data: drawn from a seed, written to a file, played again, made smaller."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec

from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import GPU, JOB
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.simulate.names import numbered
from headrace.simulate.scenario import Delete, Nodes, Submit
from tests.properties.histories import QUARTER, Chance, closings, edits, fillers, joins, policies, profiles, submits, supply
from tests.simulation.machines import Behaviour

Thing = TypeVar("Thing")

SERVICES = ("admission", "allocator", "preemption", "governance", "feed")

FEATURES = (
    "cancel",
    "requeue",
    "finish",
    "fail",
    "force",
    "apply",
    "delete",
    "drain",
    "cordon",
    "join",
    "ask",
    "burst",
    "hooks",
)
"""What users and administrators do; each run has some of them."""

ON_SERVICES = ("crash", "crash_soon", "stop", "second", "cut", "stall", "slow", "lossy", "clock")
ON_NODES = (
    *("crash", "crash_soon", "stop", "cut", "stall", "slow", "lossy", "clock", "power", "halt"),
    *("disk", "device", "refuse", "stuck", "slow_node", "lie"),
)
ON_THE_SERVER = ("server", "election", "full")
EVERYTHING = 0.15
"""How often everything dies at once, and users submit while it comes up again."""
"""What goes wrong; each run has some of them."""

FEW, MANY, DENSE = (8, 24), (60, 120), 0.2
"""Rows of jobs, each of one to three: of most runs, of dense ones, and how often those are."""


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """`at` and `span` in microseconds; `amount`: steps until a crash, microseconds of a clock's jump, or which lie."""

    at: int
    kind: str
    target: str = ""
    span: int = 0
    amount: int = 0


class Act(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a user or an administrator does; `target`: a job by its name, or a node."""

    at: int
    kind: str
    target: str = ""
    documents: d.Documents | None = None
    delete: Delete | None = None
    node: Nodes | None = None


class Job(msgspec.Struct, frozen=True, omit_defaults=True):
    """One submission for a job, and how the job will behave. `gateway`: it is submitted through the gateway, and not over the bus."""

    at: int
    submission: Submit
    behaviour: Behaviour
    on_abort: bool = False
    gateway: bool = False


class Again(msgspec.Struct, frozen=True, omit_defaults=True):
    """One request for several jobs of one queue, by their names; some may have been submitted before; `gateway` or bus."""

    at: int
    jobs: tuple[str, ...]
    gateway: bool = False


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run. Faults, submissions and acts come before `until`; then all is mended, and everything has to come to its end."""

    seed: str
    until: int
    documents: d.Documents
    nodes: tuple[Nodes, ...]
    jobs: tuple[Job, ...] = ()
    acts: tuple[Act, ...] = ()
    faults: tuple[Fault, ...] = ()
    latency: int = 1_000
    again: tuple[Again, ...] = ()


class Drawn(Chance):
    """Chance by a number alone."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def number(self, least: int, most: int) -> int:
        """Any from `least` to `most`."""
        return self.random.randint(least, most)

    def among(self, things: Sequence[Thing]) -> Thing:
        """One of them."""
        return things[self.random.randrange(len(things))]

    def order(self, things: Sequence[Thing]) -> list[Thing]:
        """All of them, in any order."""
        left = list(things)
        self.random.shuffle(left)
        return left

    def some(self, things: Sequence[str]) -> list[str]:
        """Each of them or not."""
        return [thing for thing in things if self.coin()]


def draw(seed: str) -> Plan:
    """The plan of a seed."""
    chance = Drawn(Random(f"plan/{seed}"))
    features = set(chance.some(FEATURES))
    until = chance.among([2, 4, 6]) * MINUTE
    rows, pools, has = supply(chance)
    links = profiles(chance, [pool.name for pool in pools], may_cut=any(row.mig for row in rows))
    tenants = chance.among([["default"], ["default"], ["acme", "bcme"]])
    law, reserved = policies(chance, tenants, links, has)
    documents = _documents(chance, tenants, pools, links, law, reserved)
    law = documents.policies
    jobs = _jobs(chance, law, links, until, features, many=Random(f"dense/{seed}").random() < DENSE)
    machines = [name for row in rows for name in numbered(row.name, row.count)]
    jobs, again = _repeated(Drawn(Random(f"again/{seed}")), jobs)
    crash = _everything(seed, until)
    if crash is not None:
        jobs = _meanwhile(crash, jobs)
    acts = _acts(chance, features, law, pools, rows, machines, jobs, until)
    joined = [act.node.name for act in acts if act.node is not None]
    faults = _faults(chance, [*machines, *joined], until)
    if crash is not None:
        faults = sorted([*faults, crash], key=lambda fault: fault.at)
    return Plan(
        seed, until, documents, tuple(rows), tuple(jobs), tuple(acts), tuple(faults), chance.among([200, 1_000, 8_000]), again
    )


def _documents(chance, tenants, pools, links, law, reserved) -> d.Documents:  # type: ignore[no-untyped-def]
    shared = chance.coin()
    groups = tuple(d.Group(tenant=one.tenant, name=f"g-{one.name}", members=("ann", "bob")) for one in law)
    law = tuple(msgspec.structs.replace(one, group=f"g-{one.name}") for one in law)
    shares = {
        tenant: tuple(
            d.Share(pool=pool, reservation={GPU: units, JOB: 9}, limit={GPU: units + chance.number(0, 8) * QUARTER})
            for (owner, pool), units in sorted(reserved.items())
            if owner == tenant and shared
        )
        for tenant in tenants
    }
    written = tuple(d.Tenant(name=name, shares=shares[name]) for name in tenants if name != "default" or shares[name])
    return d.Documents(tenants=written, groups=groups, pools=tuple(pools), profiles=links, policies=law)


def _jobs(chance: Drawn, law, links, until: int, features: set[str], *, many: bool) -> list[Job]:  # type: ignore[no-untyped-def]
    rows = [
        (chance.number(0, until), submits(chance, place, law, links)) for place in range(chance.number(*MANY if many else FEW))
    ]
    if many:  # most of them are over soon
        short = [(at, msgspec.structs.replace(row, duration=chance.number(1, 40) * SECOND)) for at, row in rows]
        rows = [chance.among([*3 * [new], old]) for new, old in zip(short, rows, strict=True)]
    rows += [
        (moment.at, moment.submit)
        for place in range(chance.number(0, 4))
        if (moment := fillers(chance, place, law, links)).submit
    ]
    found = []
    for at, row in rows:
        for name in numbered(row.name, row.count):
            hooked = "hooks" in features and chance.coin()
            behaviour = Behaviour(
                duration=row.duration,
                exit_code=chance.among([0, 0, 0, 0, 1]),
                abort_takes=min(row.abort_takes, 45 * SECOND),
                term_takes=chance.among([0, SECOND, 10 * SECOND, 40 * SECOND]),
                hooked=hooked,
                stubborn=chance.among([False, False, False, True]),
                checkpoint_every=min(row.checkpoint_every or 0, MINUTE),
                lingers=chance.among([0, 0, 500_000, 5 * SECOND]),
            )
            submission = msgspec.structs.replace(row, name=name, count=1)
            found.append(Job(at, submission, behaviour, on_abort="hooks" in features and chance.coin()))
    return sorted(found, key=lambda job: job.at)


def _repeated(chance: Drawn, jobs: list[Job]) -> tuple[list[Job], tuple[Again, ...]]:
    """The jobs, some through the gateway, and requests that repeat them: of most runs a few, of others none."""
    if not jobs or chance.number(1, 3) == 1:
        return jobs, ()
    jobs = [msgspec.structs.replace(job, gateway=chance.coin()) for job in jobs]
    again = []
    for _ in range(chance.number(1, 8)):
        first = chance.among(jobs)
        others = [job for job in jobs if _who(job) == _who(first) and job is not first]
        at = first.at + chance.among([0, 0, chance.number(0, 3) * SECOND, chance.number(0, 110) * SECOND])
        gateway = chance.coin()
        for _ in range(chance.among([1, 1, 3])):  # several callers at one moment
            named = chance.order([first, *chance.order(others)[: chance.number(0, 3)]])
            again.append(Again(at, tuple(job.submission.name for job in named), gateway))
    return jobs, tuple(again)


def _who(job: Job) -> tuple[str, str, str]:
    return job.submission.tenant, job.submission.user, job.submission.queue


def _acts(chance: Drawn, features: set[str], law, pools, rows, machines, jobs, until: int) -> list[Act]:  # type: ignore[no-untyped-def]
    acts: list[Act] = []
    some = [feature for feature in FEATURES if feature in features and feature not in ("burst", "hooks")]
    for place in range(chance.number(0, 14) if some else 0):
        at, what = chance.number(0, until), chance.among(some)
        if what == "apply":
            acts.append(Act(at, what, documents=edits(chance, law, pools)))
        elif what == "delete":
            acts.append(Act(at, what, delete=closings(chance, law, pools)))
        elif what in ("drain", "cordon"):
            node = chance.among(machines)
            acts += [Act(at, what, node), Act(at + chance.number(0, 90) * SECOND, "uncordon", node)]
        elif what == "join":
            acts.append(Act(at, what, f"new-{place}", node=joins(chance, rows, f"new-{place}", at)[0].node_joins))
        else:
            job = chance.among(jobs)
            acts.append(Act(max(at, job.at + chance.number(0, 60) * SECOND), what, job.submission.name))
    return sorted((act for act in acts if act.at < until), key=lambda act: act.at)


def _faults(chance: Drawn, machines: list[str], until: int) -> list[Fault]:
    services, nodes, server = chance.some(ON_SERVICES), chance.some(ON_NODES), chance.some(ON_THE_SERVER)
    kinds = [(kind, target) for kind in services for target in SERVICES]
    kinds += [(kind, target) for kind in nodes for target in machines]
    kinds += 3 * [(kind, "nats") for kind in server]
    if not kinds:
        return []
    found = []
    for _ in range(chance.among([0, 1, 3, 8, 16])):
        kind, target = chance.among(kinds)
        span = chance.among([SECOND // 5, SECOND, 5 * SECOND, 20 * SECOND, 70 * SECOND])
        if kind in ("server", "election", "full"):
            span = min(span, 20 * SECOND)
        found.append(Fault(chance.number(SECOND, until), kind, target, span, _amount(chance, kind)))
    return sorted(found, key=lambda fault: fault.at)


def _everything(seed: str, until: int) -> Fault | None:
    """Drawn apart, so that whatever else happens is what it would have been."""
    chance = Drawn(Random(f"everything/{seed}"))
    if chance.random.random() >= EVERYTHING:
        return None
    span = chance.among([SECOND, 3 * SECOND, 10 * SECOND, 30 * SECOND])
    return Fault(chance.number(until // 4, until // 2), "everything", "nats", span, amount=chance.number(0, 1))


def _meanwhile(crash: Fault, jobs: list[Job]) -> list[Job]:
    """Every third job is submitted while everything comes up."""
    chance = Drawn(Random(f"meanwhile/{crash.at}"))
    moved = [
        msgspec.structs.replace(job, at=crash.at + crash.span + chance.number(0, 8 * SECOND)) if place % 3 == 0 else job
        for place, job in enumerate(jobs)
    ]
    return sorted(moved, key=lambda job: job.at)


def _amount(chance: Drawn, kind: str) -> int:
    if kind == "crash_soon":
        return chance.number(1, 400)
    if kind == "clock":
        return chance.among([1, -1]) * chance.among([SECOND // 2, 5 * SECOND, 100 * SECOND])
    return chance.number(0, 9) if kind == "lie" else 0


def write(plan: Plan, path: Path) -> None:
    """To a file that a person can read."""
    path.parent.mkdir(parents=True, exist_ok=True)  # that it is missing would be found out after all seeds
    path.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=1))


def read(path: Path) -> Plan:
    """From a file."""
    return msgspec.json.decode(path.read_bytes(), type=Plan)
