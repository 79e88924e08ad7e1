"""What if: runs the same moment twice, once unchanged and once with changes, by the real deciders in virtual time.

Two beginnings: a scenario at one of its moments, and the state of an installation at any sequence of its ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Documents, PreemptionTerms
from headrace.contracts.values.durations import DAY
from headrace.domain.model.job_states import HOLDING, JobState
from headrace.domain.snapshots.snapshot import copy_of
from headrace.simulate.difference import Side, called, difference
from headrace.simulate.names import numbered
from headrace.simulate.outcome import Outcome
from headrace.simulate.recorded_inputs import KnownEnds, RecordedInputs
from headrace.simulate.refused import Refused
from headrace.simulate.run_pair import rarely_collected, run_pair
from headrace.simulate.scenario import Scenario
from headrace.simulate.simulated_nodes import Run
from headrace.simulate.usage_cost import NOTED as COST_NOTES
from headrace.simulate.usage_cost import UsageCost, priced_keys
from headrace.simulate.world import World

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.contracts.messages.whatif import Difference
    from headrace.domain.explain.expected_ends import ExpectedEnds
    from headrace.domain.model.jobs import JobRecord, LeaseState
    from headrace.domain.state.state import State
    from headrace.simulate.changes import WhatIfChanges

FOR = 7 * DAY
"""Default maximum of virtual time; both end earlier if nothing more can happen in either."""

BY_LIMITS = "a job whose end is not known ends at its time limit"
BY_HISTORY = "one without a limit after the mean of the longer runs of its queue"
NEVER = "jobs without both run on"
GRACES = "a job that is told to stop uses its whole grace"
LEAVES = "a job that is told to stop leaves as it, or others of its policy, really did, otherwise it uses its whole grace"
ANEW = "a job that starts again begins from its start"
NO_NEW_JOB = "no other jobs are submitted"
AT_ONCE = "nodes start jobs at once, and refuse none"
AS_THEY_CAME = "jobs come, and are cancelled, when they really were"
AS_THEY_RAN = "they run as long, end as, and save as often as was seen of them"
AS_IT_WAS_WRITTEN = "nodes come and go, and documents are written, as they really were, the changed ones aside"
REFUSED_STAYS = "what was refused stays refused, and is not asked again"

FREEZE_AFTER = 200_000
"""Number of allocations between two collections of garbage: runs allocate much, and little of it is cyclic."""

Progress = Callable[[int], None]
"""Receives the progress of both runs, in thousandths."""


def _ignore(_thousandths: int) -> None:
    """Ignore progress that is not asked for."""


class _Player:
    """One of the two worlds, and what is noted of it."""

    def __init__(self, world: World, keys: frozenset[str]) -> None:
        self.world = world
        self._outcome = Outcome(world.state)
        self._usage_cost = UsageCost(world.state, keys)
        self._began = self._due = world.now
        self._step = 1
        self._progress: Progress = _ignore
        self._outcome.begin(world.now)
        self._usage_cost.begin(world.now)
        world.listeners.append(self._on_fact)

    def _on_fact(self, fact: AnyFact, now: int) -> None:
        if now >= self._due:
            self._due = now + self._step
            self._progress((now - self._began) // self._step)
        self._outcome.note(fact, now)
        if type(fact) in COST_NOTES:
            self._usage_cost.note(fact, now)

    def play(self, until: int, progress: Progress) -> int:
        """Run to the end of the timeline, and on until nothing more can happen; returns the log time there."""
        step = max(1, (until - self._began) // 1_000)
        self._progress, self._step, self._due = progress, step, self._began + step
        self.world.run_until_stable()
        for _ in self.world.play(until - self.world.start):
            pass
        self.world.play_out(until)
        return self.world.now

    def outcome(self, end: int) -> Side:
        """Return the outcome at the log time `end`."""
        self._outcome.end(end)
        self._usage_cost.end(end)
        named = {key: name for name, key in self.world.names.items()}
        names = {key: named.get(key) or called(key) for key in self._outcome.job_outcomes}
        return Side(self._outcome.job_outcomes, self._usage_cost.tally(), names)


def compare(
    world: World,
    changes: WhatIfChanges,
    *,
    span: int = FOR,
    to_the_end: bool = False,
    tenant: str = "",
    progress: Progress = _ignore,
) -> Difference:
    """Apply the changes at the world's moment; both go on for `span` at most.

    Raises `Refused` and `Unsettled`; the world is left unchanged.

    `to_the_end`: leases count until the end of the span, even if nothing more can happen before. `tenant`: only its jobs are in the
    answer, empty: all.
    """
    return _compare(world.fork(), changes, span=span, to_the_end=to_the_end, tenant=tenant, progress=progress)


def _compare(
    world: World, changes: WhatIfChanges, *, span: int, to_the_end: bool, tenant: str, progress: Progress
) -> Difference:
    """The same with a world that goes on itself."""
    _check_clashes(world, changes)
    parting = world.now
    with rarely_collected(FREEZE_AFTER):
        keys = priced_keys(_documents(world, changes))
        as_is, changed = (_Player(one, keys) for one in (world, world.fork()))
        changed.world.change(changes)
        end, (before, after) = run_pair(as_is, changed, parting + span, progress, least=parting + span if to_the_end else 0)
        return difference(before.of(tenant), after.of(tenant), (parting, end), parting - world.start)


def _documents(world: World, changes: WhatIfChanges) -> Iterator[object]:
    """Yield every document that is, or comes to be, in force in one of the two."""
    state = world.state
    yield from (pool.document for pool in state.pools.values())
    yield from (tenant.document for tenant in state.tenants.values())
    yield from (*changes.documents.pools, *changes.documents.tenants)
    for moment in world.scenario.timeline:
        for documents in (moment.apply,) if moment.apply is not None else ():
            yield from (*documents.pools, *documents.tenants)
        for fact in moment.stated:
            yield getattr(fact, "pool", None) or getattr(fact, "tenant", None)


def _check_clashes(world: World, changes: WhatIfChanges) -> None:
    """Raise if hypothetical names clash with names that exist, or will."""
    rows = (*(moment.submit for moment in world.scenario.timeline if moment.submit is not None),)
    jobs = {name for row in rows for name in numbered(row.name, row.count)}
    moments = world.scenario.timeline
    nodes = {fact.node for moment in moments for fact in moment.stated if isinstance(fact, f.NodeRegisteredV1)}
    lines = [
        f"{sort} {name}: there is one of that name already; give it another"
        for sort, there, wanted in (("job", jobs, changes.submit), ("node", nodes | world.state.nodes.keys(), changes.nodes))
        for row in wanted
        for name in numbered(row.name, row.count)
        if name in there
    ]
    if lines:
        raise Refused("\n".join(lines))


def compare_from(
    state: State,
    changes: WhatIfChanges,
    now: int,
    *,
    span: int = FOR,
    inputs: RecordedInputs | None = None,
    tenant: str = "",
    progress: Progress = _ignore,
) -> Difference:
    """Compare from the state of an installation at log time `now`, with assumptions about its jobs.

    With `inputs`, what really came then comes in both, and both are run to the end of the span.
    """
    came = RecordedInputs(now) if inputs is None else inputs
    ends = KnownEnds(state, now, came)
    with rarely_collected(FREEZE_AFTER):
        world = _world_of(state, ends, now, came)
    to_the_end = inputs is not None
    found = _compare(world, changes, span=span, to_the_end=to_the_end, tenant=tenant, progress=progress)
    known = (BY_LIMITS, BY_HISTORY, NEVER) if ends.by_history or inputs is not None else (BY_LIMITS, NEVER)
    if inputs is None:
        return structs.replace(found, assumptions=(*known, GRACES, ANEW, AT_ONCE, NO_NEW_JOB))
    seen = (AS_THEY_CAME, AS_THEY_RAN, *known, LEAVES, AT_ONCE)
    return structs.replace(found, assumptions=(*seen, AS_IT_WAS_WRITTEN, REFUSED_STAYS))


def _world_of(state: State, ends: ExpectedEnds, now: int, came: RecordedInputs) -> World:
    """Return a world that goes on from a state: every job behaves as known of its kind, and leases are on their nodes already."""
    scenario = Scenario(documents=Documents(), timeline=tuple(came.moments))
    world = World(scenario, state=copy_of(state), start=max(now, state.now), long=True)
    world.machines.suspending = frozenset(came.suspending)
    for job in state.jobs.values():
        if job.ended_at:
            continue
        queue = (*job.policy.key, job.profile)
        world.machines.behaviours[job.key] = came.behaviour(job.key, queue, job.policy.document.preemption, ends.span(job))
        if job.state in HOLDING:
            _add_running_leases(world, job, ends)
    for fact in came.came():
        tenant = fact.job.split(".")[0]
        policy = state.policies.get((tenant, fact.policy))
        terms = PreemptionTerms() if policy is None else policy.document.preemption
        queue = (tenant, fact.policy, fact.profile)
        duration = came.usual(queue, fact.job) if fact.time_limit is None else fact.time_limit
        world.machines.behaviours[fact.job] = came.behaviour(fact.job, queue, terms, duration)
        for key in came.elements(fact.job) if fact.array is not None else ():
            world.machines.behaviours[key] = came.behaviour(key, queue, terms, duration)
    for array in state.arrays.values():
        for key in () if array.job.ended_at else (array.job.key, *came.elements(array.job.key)):
            queue, terms = (*array.job.policy.key, array.job.profile), array.job.policy.document.preemption
            if key not in state.jobs:
                world.machines.behaviours[key] = came.behaviour(key, queue, terms, ends.span(array.job))
    return world


def _add_running_leases(world: World, job: JobRecord, ends: ExpectedEnds) -> None:
    for lease in job.leases.values():
        node = world.state.nodes.get(lease.node)
        if node is not None and node.healthy:
            world.machines.add_running(_run_of(world, job, lease, ends), world.now, started=bool(lease.started_at))
    if any(lease.resuming for lease in job.leases.values()):
        world.machines.react(f.ResumeOrderedV1(job=job.key, attempt=job.attempt), world.now)
    if job.stop is not None and any(lease.suspended_at for lease in job.leases.values()):  # a suspended job is killed (R29)
        world.machines.react(f.StopOrderedV1(job=job.key, attempt=job.attempt, ladder=job.stop), world.now)


def _run_of(world: World, job: JobRecord, lease: LeaseState, ends: ExpectedEnds) -> Run:
    behaviour = world.machines.behaviours[job.key]
    span = ends.span(job, world.now - job.started_at if job.started_at else 0)
    gone = ends.of(job) if job.started_at or job.state is JobState.STOPPING else None if span is None else world.now + span
    run = Run(job.key, lease.attempt, lease.rank, lease.node, behaviour, lease.started_at or world.now, gone)
    run.stopping = job.state is JobState.STOPPING
    run.exit_code = 143 if run.stopping else 0
    if lease.suspended_at or lease.resuming:  # it still has the rest of its time
        run.suspended = lease.suspended_at or world.now
        done = run.suspended - job.started_at - job.paused
        run.ends = None if span is None else run.suspended + max(0, span - done)
    return run
