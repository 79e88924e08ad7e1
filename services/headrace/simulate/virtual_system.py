"""A whole Headrace in one process and virtual time: the real pure parts over the in-memory log.

Naive meaning: admission, allocator, preemption, governance and the nodes take turns, each reading what the others have stated, until none
has anything to state. Then time jumps to the next thing that is due.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.admission.decide import Admission
from headrace.allocator.decide import Allocator
from headrace.bus.memory import MemoryLog
from headrace.contracts.documents.tree import path_of
from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.records import RECORD_FACTS_MAX, Record
from headrace.contracts.facts.writers import ADMISSION, ALLOCATOR, GOVERNANCE, PREEMPTION
from headrace.contracts.messages.queries import DeleteRequest
from headrace.contracts.messages.submissions import After, JobSubmission
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import ledger, submit
from headrace.contracts.values.durations import format_duration
from headrace.contracts.values.ids import DEFAULT_TENANT, element_name, job_key, make_job_id
from headrace.domain.fold.apply import make_true
from headrace.domain.fold.ledger import FoldedLedger
from headrace.domain.model.time_rules import TimeRules
from headrace.domain.state.state import State
from headrace.governance.calendars import TimeZones
from headrace.governance.decide import Governance
from headrace.governance.objects import applied, placed
from headrace.governance.plan import make_plan
from headrace.governance.removal import remove
from headrace.governance.time_zones import known_zones, offsets_of
from headrace.preemption.decide import PreemptionWatch
from headrace.simulate.names import elements_named, entitled_member, find_policy, numbered
from headrace.simulate.refused import AUTHOR, Refused
from headrace.simulate.simulated_nodes import NODE_TRIGGERS, SimulatedNodes
from headrace.simulate.simulated_use import SimulatedUse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.contracts.documents.model import Documents
    from headrace.contracts.facts import AnyFact
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.queueing.admissible import Rejection
    from headrace.governance.decide import Decision
    from headrace.governance.objects import ObjectName
    from headrace.simulate.scenario import Delete, Scenario, Submit

START = 1_767_225_600_000_000
"""Virtual time begins at 2026-01-01T00:00:00Z."""
ENGINE = "simulate"
ROUNDS_MAX = 100_000
ZONES = TimeZones(offsets_of, known_zones)


class Unsettled(Exception):
    """The deciders did not come to rest (R31)."""


@dataclass(slots=True)
class NeverRuns:
    """Kinds of jobs, and why they could never run; by the documents and hardware as `of` a sequence."""

    of: int = -1
    answers: dict[tuple[object, ...], Rejection | None] = field(default_factory=dict)


class RunRecord(NamedTuple):
    """One record of the run: sequence, virtual time since the start (microseconds), writer, facts."""

    sequence: int
    at: int
    by: str
    facts: tuple[AnyFact, ...]


class TimedDecider(Protocol):
    """States facts in its turn, and may have to be asked again at some time although nothing new is read."""

    def decide(self, now: int) -> Iterable[AnyFact]:
        """Return the facts to state at log time `now`; empty if nothing is to be done."""

    def next_wakeup(self) -> int | None:
        """Return the log time at which something is due by itself."""


class VirtualSystem:
    """One run. `history` holds everything stated, `names` the key of each job by its name in the file.

    `judged` False: documents come into force unchanged, even if governance would refuse them, and objects that it would not delete stay;
    for trying the rules on worlds that no user may write. `long`: facts are folded directly, without codec, checks and log, and not kept:
    for runs of days of work. `listeners` receive each fact when it has been folded, and when (log time). `deciders` take turns in this
    order, by the writer in whose name they speak; an entry here replaces the usual decider.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        judged: bool = True,
        state: State | None = None,
        start: int = START,
        long: bool = False,
    ) -> None:
        self.scenario = scenario
        self.judged = judged
        self.long = long
        self.listeners: list[Callable[[AnyFact, int], None]] = []
        self.start = self.now = start
        self.ledger = FoldedLedger(state)
        self.state = self.ledger.state
        lasts = {ledger(writer): sequence for writer, (sequence, _) in self.state.writers.items()}
        self.log = MemoryLog(lambda: self.now, after=self.state.sequence, lasts=lasts)
        self.submits = MemoryLog(lambda: self.now, after=self.state.judged)
        self.admission = Admission(self.state, lambda _tenant, _job, _text: "")
        self._use = SimulatedUse(self.state)
        self.deciders: dict[str, TimedDecider] = {
            ALLOCATOR: Allocator(self.state),
            PREEMPTION: PreemptionWatch(self.state, use=self._use),
            GOVERNANCE: Governance(self.state, ZONES),
        }
        self._rests: dict[str, tuple[int, int]] = {}
        """By decider the record and time at which it had nothing to state: until one of these changes, it need not be asked."""
        self.machines = SimulatedNodes()
        self.otherwise: frozenset[ObjectName] = frozenset()
        """Objects that changes have written or removed: recorded writes to them are skipped."""
        self.former: dict[tuple[str, str], Amounts] = {}
        """What a replica took before, of profiles that changes have written."""
        self.never = NeverRuns()
        self.history: list[RunRecord] = []
        self.names: dict[str, str] = {}
        self._submitted = 0

    def measure(self, name: str, *, idle: bool) -> None:
        """From now on nodes measure that a job does not use its GPUs, or that it does."""
        job = self.state.jobs.get(self.names[name])
        if job is not None:
            self._use.measure(job, self.now if idle else 0)
            self._rests.pop(PREEMPTION, None)

    def pass_to(self, target: int) -> None:
        """Advance time to `target`, with all reactions that are due by then."""
        self._jump_to(target)
        self.run_until_stable()

    def play_out(self, until: int) -> None:
        """Go on, with no timeline, until only checkpoints can happen, at most up to `until`."""
        while self.now < until and not self._is_over():
            moment = self._next_moment()
            self.pass_to(until if moment is None else min(moment, until))

    def _is_over(self) -> bool:
        return not self.machines.will_end() and all(moment is None or moment <= self.now for moment in self._wakeups())

    def _wakeups(self) -> list[int | None]:
        return [decider.next_wakeup() for decider in self.deciders.values()]

    def _next_moment(self) -> int | None:
        """Return the time of the next event that happens by itself, after now."""
        due = [self.machines.next_due(), *self._wakeups()]
        return min((moment for moment in due if moment is not None and moment > self.now), default=None)

    def _jump_to(self, target: int) -> None:
        """Advance time to `target`, stopping at every event that is due before it."""
        while True:
            due, moment = self.machines.next_due(), self._next_moment()
            if (due is not None and due <= self.now) or moment is None or moment >= target:
                break
            self.now = moment
            self.machines.pass_time(self.now)
            self.run_until_stable()
        self.now = target
        self.machines.pass_time(self.now)

    def run_until_stable(self) -> None:
        """Let all take turns until none has anything to state.

        A decider that had nothing to state is asked again when something is new: a decision is a function of state and time.
        """
        state, rests = self.state, self._rests
        state.pass_time(self.now)
        for _ in range(ROUNDS_MAX):
            spoken = self._let_nodes_act()
            if self.admission.waiting and self.append(ADMISSION, self.admission.decide(self.now)):
                spoken = True
            for by, decider in self.deciders.items():
                rest = state.sequence, self.now
                if rests.get(by) == rest:
                    continue
                facts = decider.decide(self.now)
                if facts:
                    spoken = self.append(by, facts)
                else:
                    rests[by] = rest
            if not spoken:
                return
        raise Unsettled(f"no rest after {ROUNDS_MAX} rounds at {format_duration(self.now - self.start)}")

    def _let_nodes_act(self) -> bool:
        by_writer: dict[str, list[AnyFact]] = {}
        stated = self.machines.take_facts()
        if not stated:
            return False
        for writer, fact in stated:
            by_writer.setdefault(writer, []).append(fact)
        for writer, facts in by_writer.items():
            for start in range(0, len(facts), RECORD_FACTS_MAX):
                self.append(writer, facts[start : start + RECORD_FACTS_MAX])
        self.machines.pass_time(self.now)
        return bool(by_writer)

    def append(self, by: str, facts: Iterable[AnyFact]) -> bool:
        """State facts as one record, through codec, log and fold; returns False if empty."""
        stated = tuple(facts)
        if not stated:
            return False
        state, now, all_facts = self.state, self.now, tuple(with_implied_facts(stated))
        if self.long:
            sequence = state.sequence + 1
            state.writers[by] = (sequence, "")
            make_true(state, all_facts, now, sequence)
        else:
            self._record(by, stated)
        for _, fact in all_facts:
            if type(fact) in NODE_TRIGGERS:
                self.machines.react(fact, now)
            for listener in self.listeners:
                listener(fact, state.now)
        return True

    def _record(self, by: str, stated: tuple[AnyFact, ...]) -> None:
        """Write it as its writer would, and read it back."""
        last, prev = self.ledger.last_of(by)
        record = Record(
            by=by,
            now=max(self.now, self.state.now),
            engine=ENGINE,
            as_of=self.state.sequence,
            prev="" if by.startswith("node.") else prev,
            facts=stated,
        )
        sequence = self.log.append_now(ledger(by), encode(record), last)
        (message,) = self.log.messages_after(sequence - 1)
        if self.ledger.read(message) is None:
            raise AssertionError(self.ledger.void_reason)
        self.history.append(RunRecord(sequence, self.now - self.start, by, stated))

    def decided(self, decision: Decision) -> None:
        """State what governance decided. Raises `Refused` if it refused."""
        if decision.error and self.judged:
            raise Refused(decision.error)
        self.append(GOVERNANCE, decision.facts)

    def apply(self, documents: Documents, where: str = "", first: tuple[AnyFact, ...] = ()) -> None:
        """Put documents in force, by a record that begins with the facts `first`; `where` is prepended to messages about them."""
        if not self.judged:
            self.append(GOVERNANCE, [*first, *as_law(documents)])
            return
        state = (
            State(terms=TimeRules(level=LEVEL)) if first else self.state
        )  # `first` raises an empty installation to that level
        plan = make_plan(state, documents, AUTHOR, groups=False, zones=ZONES, now=self.now)
        if plan.errors:
            raise Refused("\n".join(f"{where}{error}" if path_of(error) else error for error in plan.errors))
        self.append(GOVERNANCE, [*first, *plan.facts])

    def delete(self, deletion: Delete) -> None:
        """Delete an object as governance would."""
        request = DeleteRequest(kind=deletion.kind, name=deletion.name, tenant=owner_of(deletion), mode=deletion.mode)
        removal = remove(self.state, request, AUTHOR)
        if removal.error and not self.judged:
            return
        if removal.error:
            raise Refused(removal.error)
        self.append(GOVERNANCE, removal.facts)

    def submit(self, jobs: Submit) -> None:
        """Submit jobs, for admission to judge."""
        policy, profile = jobs.queue.split("/")
        found = find_policy(self.state, policy, jobs.tenant)
        tenant = found.document.tenant if found is not None else jobs.tenant or DEFAULT_TENANT
        user = jobs.user or entitled_member(self.state, found)
        for name in numbered(jobs.name, jobs.count):
            self._submitted += 1
            job_id = make_job_id(self.now // 1_000, self._submitted.to_bytes(10, "big"))
            self.names[name] = job_key(tenant, user, job_id)
            self.machines.behaviours[self.names[name]] = jobs
            for element in elements_named(name, jobs.array) if jobs.array else ():
                self.names[element] = element_name(self.names[name], int(element.rpartition("-")[2]))
            submission = JobSubmission(
                id=job_id,
                command=jobs.command,
                image=jobs.image,
                name=name,
                preemptible=jobs.preemptible,
                priority=jobs.priority,
                retries=jobs.max_retries,
                time_limit="" if jobs.time_limit is None else format_duration(jobs.time_limit),
                after=tuple(After(job=self.names.get(other, other)) for other in jobs.after),
                request=dict(jobs.request),
                array=jobs.array,
            )
            self.publish(submit(tenant, user, policy, profile), encode(submission))

    def publish(self, subject: str, payload: bytes) -> None:
        """Publish a message on SUBMIT."""
        sequence = self.submits.append_now(subject, payload, None)
        self.admission.waiting += self.submits.messages_after(sequence - 1)


def as_law(documents: Documents) -> list[AnyFact]:
    """Return the facts that put documents in force, without governance's checks."""
    return [applied(place.document, AUTHOR, "") for place in placed(documents)]


def owner_of(deletion: Delete) -> str:
    """Return the object's tenant; pools and tenants have none, and a scenario's profiles are the provider's."""
    return deletion.tenant if deletion.kind in ("policy", "group") else ""
