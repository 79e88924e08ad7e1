"""What if: the same moment played on twice, once as it is and once with changes, by the real deciders in virtual time.

Two beginnings: a scenario at one of its moments, and the state of an installation at any sequence of its ledger.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from headrace.contracts import facts as f
from headrace.contracts.documents import Documents, PreemptionTerms
from headrace.contracts.durations import DAY
from headrace.domain.snapshot import copy_of
from headrace.domain.state import HOLDING, JobState
from headrace.domain.why.ends import Ends
from headrace.simulate.aftermath import Aftermath, KnownEnds
from headrace.simulate.difference import called, difference
from headrace.simulate.machines import Run
from headrace.simulate.names import numbered
from headrace.simulate.outcome import Outcome
from headrace.simulate.scenario import Scenario, Submit
from headrace.simulate.world import Refused, World

if TYPE_CHECKING:
    from headrace.domain.state import JobRecord, LeaseState, State
    from headrace.simulate.changes import Changes
    from headrace.simulate.difference import Difference

FOR = 7 * DAY
"""How far both are played, unless told otherwise; earlier if nothing is left to happen in either."""

BY_LIMITS = "a job ends at its time limit"
BY_HISTORY = "one without a limit after the mean run time of its queue in the last hour"
NEVER = "one of which neither is known runs on"
GRACES = "who is told to stop takes its whole grace"
ANEW = "who starts again begins anew"
NOBODY_NEW = "nobody else submits anything"
AS_THEY_CAME = "jobs come, and are cancelled, when they really were, and run as long as they really did where that is known"
THE_REST_STAYS = "documents and nodes stay as they were at the beginning, the changes aside"


class _Player(NamedTuple):
    """One of the two worlds, and what is told of it."""

    world: World
    outcome: Outcome

    def play(self, until: int) -> None:
        """To the end of the timeline, and on until nothing is left to happen."""
        self.world.settle()
        for _ in self.world.play(until - self.world.start):
            pass
        self.world.play_out(until)

    def tell(self, end: int) -> Outcome:
        """What came of it by the log time `end`."""
        for stated in self.world.history:
            for fact in stated.facts:
                self.outcome.note(fact, self.world.start + stated.at)
        self.outcome.end(end)
        return self.outcome

    def names(self) -> dict[str, str]:
        """What each job is called: by its name in a file, else by user and id."""
        named = {key: name for name, key in self.world.names.items()}
        return {key: named.get(key) or called(key) for key in self.outcome.tales}


def compare(world: World, changes: Changes, *, span: int = FOR) -> Difference:
    """The changes come at the world's moment; both go on for `span` at most. Raises `Refused` and `Unrest`; the world is left as it is."""
    _look_for_clashes(world, changes)
    parting = world.now
    as_is, changed = (_Player(world.fork(), Outcome()) for _ in range(2))
    for player in (as_is, changed):
        player.outcome.begin(world.state, parting)
    changed.world.change(changes)
    for player in (as_is, changed):
        player.play(parting + span)
    end = max(as_is.world.now, changed.world.now)
    sides = (as_is.tell(end), changed.tell(end))
    return difference(*sides, (as_is.names(), changed.names()), (parting, end), parting - world.start)


def _look_for_clashes(world: World, changes: Changes) -> None:
    """What is supposed to come must be told from what is there, or will be."""
    rows = (*(moment.submit for moment in world.scenario.timeline if moment.submit is not None),)
    jobs = {name for row in rows for name in numbered(row.name, row.count)}
    lines = [
        f"{sort} {name}: there is one of that name already; give it another"
        for sort, there, wanted in (("job", jobs, changes.submit), ("node", world.state.nodes.keys(), changes.nodes))
        for row in wanted
        for name in numbered(row.name, row.count)
        if name in there
    ]
    if lines:
        raise Refused("\n".join(lines))


def compare_from(
    state: State, changes: Changes, now: int, *, span: int = FOR, aftermath: Aftermath | None = None
) -> Difference:
    """The same from the state of an installation at log time `now`, with what has to be assumed about its jobs.

    With an `aftermath`, what really came then comes in both.
    """
    came = Aftermath(now) if aftermath is None else aftermath
    ends = KnownEnds(state, now, came.runs)
    world = _world_of(state, ends, now, came)
    found = compare(world, changes, span=span)
    known = (BY_LIMITS, BY_HISTORY, NEVER) if ends.by_history else (BY_LIMITS, NEVER)
    others = (NOBODY_NEW,) if aftermath is None else (AS_THEY_CAME, THE_REST_STAYS)
    return structs.replace(found, assumptions=(*known, GRACES, ANEW, *others))


def _world_of(state: State, ends: Ends, now: int, came: Aftermath) -> World:
    """A world that goes on from a state: every job behaves as is known of its kind, what holds leases is on its node already."""
    scenario = Scenario(documents=Documents(), timeline=tuple(came.moments))
    world = World(scenario, state=copy_of(state), start=max(now, state.now))
    spans: dict[tuple[object, ...], Submit] = {}
    for job in state.jobs.values():
        if job.ended_at:
            continue
        terms = job.policy.document.preemption
        grace = terms.callback_grace + terms.term_grace
        kind = (job.queue, ends.span(job), grace)
        world.machines.behaviours[job.key] = spans.setdefault(
            kind, Submit(name="job", queue=job.queue, duration=kind[1], abort_takes=grace)
        )
        if job.state in HOLDING:
            _adopt(world, job, ends)
    for fact in came.came():
        policy = state.policies.get((fact.job.split(".")[0], fact.policy))
        terms = PreemptionTerms() if policy is None else policy.document.preemption
        world.machines.behaviours[fact.job] = Submit(
            name="job",
            queue=f"{fact.policy}/{fact.profile}",
            duration=came.runs.get(fact.job, fact.time_limit),
            abort_takes=terms.callback_grace + terms.term_grace,
        )
    return world


def _adopt(world: World, job: JobRecord, ends: Ends) -> None:
    for lease in job.leases.values():
        node = world.state.nodes.get(lease.node)
        if node is not None and node.healthy:
            world.machines.adopt(_run_of(world, job, lease, ends), world.now, started=bool(lease.started_at))
    if any(lease.resuming for lease in job.leases.values()):
        world.machines.hear(f.ResumeOrderedV1(job=job.key, attempt=job.attempt), world.now)


def _run_of(world: World, job: JobRecord, lease: LeaseState, ends: Ends) -> Run:
    behaviour = world.machines.behaviours[job.key]
    span = ends.span(job, world.now - job.started_at if job.started_at else 0)
    gone = ends.of(job) if job.started_at or job.state is JobState.STOPPING else None if span is None else world.now + span
    run = Run(job.key, lease.attempt, lease.rank, lease.node, behaviour, lease.started_at or world.now, gone)
    run.stopping = job.state is JobState.STOPPING
    run.exit_code = 143 if run.stopping else 0
    if lease.suspended_at or lease.resuming:  # it has the rest of its time before it
        run.suspended = lease.suspended_at or world.now
        done = run.suspended - job.started_at - job.paused
        run.ends = None if span is None else run.suspended + max(0, span - done)
    return run
