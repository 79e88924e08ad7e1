"""Simulated nodes and their jobs: states what a node executor would state, in virtual time.

A granted lease starts at once, unless its node refuses or stalls. A job ends when its `duration` is over, or never; told to stop, it
leaves after `abort_takes`, and if its duration ends within that time it has declared itself finished (R30). Checkpoints come every
`checkpoint_every`, and with `saves_on_abort` also when it is told to stop. An attempt that resumes from a checkpoint has only the rest of
its `duration` before it.
"""

from __future__ import annotations

import heapq
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.contracts import facts as f
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.nodes import Device
from headrace.contracts.transport.subjects import node_writer
from headrace.contracts.values.amounts import CPU_UNITS
from headrace.contracts.values.gpu_memory import gigabytes_in_name
from headrace.contracts.values.ids import array_of
from headrace.contracts.values.isolation import CONTAINED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.fact import Ladder
    from headrace.simulate.scenario import Nodes, Submit


GIGABYTES = 80
"""Memory of a GPU whose model does not say how much it has."""

NODE_TRIGGERS: frozenset[type] = frozenset({f.LeaseGrantedV1, f.StopOrderedV1, f.ResumeOrderedV1, f.NodeCheckOrderedV1})
"""Facts that nodes react to."""


@dataclass(slots=True, eq=False)
class Run:
    """One lease that runs on a simulated node. `ends`: microseconds of virtual time; None: not by itself."""

    job: str
    attempt: int
    rank: int
    node: str
    behaviour: Submit
    started: int
    ends: int | None
    exit_code: int = 0
    stopping: bool = False
    finished: bool = False
    over: bool = False
    stalled: bool = False
    suspends: bool = False
    suspended: int | None = None
    """Since when it is suspended, in microseconds of virtual time."""
    stint: int = 0
    """Number of suspensions: events that were due before a suspension no longer apply."""
    checkpoints: int = 0
    done_before: int = 0
    """Work in the checkpoint that it resumed from, in microseconds."""


def _next_end(behaviour: Submit, ended: int) -> tuple[int | None, int]:
    """Return the work of the next attempt, including what it resumes from, and its exit code; the last known one holds for all after it."""
    return behaviour.ends[min(ended, len(behaviour.ends) - 1)] if behaviour.ends else (behaviour.duration, 0)


@dataclass(slots=True, eq=False)
class SimulatedNodes:
    """All simulated nodes. `behaviours`: behaviour of each job, by key; set by the world.

    `troubles`: nodes that do not start jobs: `refuse` or `stall`.
    """

    behaviours: dict[str, Submit] = field(default_factory=dict)
    runs: dict[tuple[str, int], dict[int, Run]] = field(default_factory=dict)
    """By job and attempt, then by rank."""
    nodes: dict[str, Nodes] = field(default_factory=dict)
    suspending: frozenset[str] = frozenset()
    """Nodes outside the scenario that are known to be able to suspend jobs."""
    ended: dict[str, int] = field(default_factory=dict)
    """Number of attempts of a job that have ended by themselves."""
    troubles: dict[str, str] = field(default_factory=dict)
    lost: dict[str, list[Run]] = field(default_factory=dict)
    saved: dict[str, int] = field(default_factory=dict)
    """Work in each checkpoint in microseconds, by its URI."""
    _due: list[tuple[int, int, str, Run, int]] = field(default_factory=list)
    _stated: list[tuple[str, AnyFact]] = field(default_factory=list)
    _order: int = 0

    def react(self, fact: AnyFact, now: int) -> None:
        """React to a folded fact: start what was granted, stop what was ordered to stop."""
        match fact:
            case f.LeaseGrantedV1():
                self._start(fact, now)
            case f.StopOrderedV1():
                for run in self._runs_of(fact.job, fact.attempt):
                    self._stop(run, fact.ladder, now)
            case f.ResumeOrderedV1():
                for run in self._runs_of(fact.job, fact.attempt):
                    self._resume(run, now)
            case f.NodeCheckOrderedV1() if fact.node not in self.lost:
                self._stated.append((node_writer(fact.node), f.NodeCheckedV1(node=fact.node, ordered=0, passed=True, at=now)))

    def _start(self, fact: f.LeaseGrantedV1, now: int) -> None:
        if fact.node in self.lost:
            return
        behaviour = self.behaviours.get(fact.job) or self.behaviours[array_of(fact.job)]
        done = self.saved.get(fact.resume_from, 0)
        duration, exit_code = _next_end(behaviour, self.ended.get(fact.job, 0))
        ends = None if duration is None else now + max(0, duration - done)
        run = Run(fact.job, fact.attempt, fact.rank, fact.node, behaviour, now, ends, exit_code, done_before=done)
        if self.troubles.get(fact.node) == "refuse":
            self._state_ended(run, now, "refused", message="it was told to refuse")
            return
        self._add(run)
        if self.troubles.get(fact.node) == "stall":
            run.stalled = True
            return
        self._state(run, f.LeaseStartedV1(job=run.job, attempt=run.attempt, rank=run.rank, at=now, isolation="simulated"))
        if ends is not None:
            self._at(ends, "end", run)
        if behaviour.checkpoint_every:
            self._at(now + behaviour.checkpoint_every, "checkpoint", run)

    def _runs_of(self, job: str, attempt: int) -> list[Run]:
        return list(self.runs.get((job, attempt), {}).values())

    def _all_runs(self) -> Iterator[Run]:
        for runs in self.runs.values():
            yield from runs.values()

    def _add(self, run: Run) -> None:
        self.runs.setdefault((run.job, run.attempt), {})[run.rank] = run

    def _remove(self, run: Run) -> None:
        run.over = True
        runs = self.runs[run.job, run.attempt]
        del runs[run.rank]
        if not runs:
            del self.runs[run.job, run.attempt]

    def _stop(self, run: Run, ladder: Ladder, now: int) -> None:
        if run.suspended is not None:
            if ladder.then != "suspend":
                self._kill(run, now)
            return
        if run.stopping or run.over:
            run.suspends = run.suspends and ladder.then == "suspend"
            return
        if run.stalled:
            self._remove(run)
            self._state_ended(run, now, "never_started")
            return
        run.stopping = True
        signalled = f.LeaseRungV1(job=run.job, attempt=run.attempt, rank=run.rank, rung="told", at=now, took=0, result="ok")
        self._state(run, signalled)
        if run.behaviour.saves_on_abort:
            self._save(run, now)
        leaves = now + run.behaviour.abort_takes
        if run.ends is not None and run.ends <= leaves:
            run.finished = not run.exit_code
            return
        run.exit_code = 143
        nodes = self.nodes.get(run.node)
        can = run.node in self.suspending if nodes is None else nodes.suspends
        run.suspends = ladder.then == "suspend" and can
        self._at(leaves, "end", run)

    def _suspend(self, run: Run, now: int) -> None:
        """Suspend instead of ending: the rest of its time is kept."""
        run.stopping, run.exit_code, run.suspended, run.stint = False, 0, now, run.stint + 1
        key: dict[str, Any] = {"job": run.job, "attempt": run.attempt, "rank": run.rank}
        self._state(run, f.LeaseRungV1(rung="suspend", at=now, took=0, result="ok", **key))
        self._state(run, f.LeaseSuspendedV1(at=now, how="simulated", **key))

    def _resume(self, run: Run, now: int) -> None:
        if run.suspended is None:
            return
        run.ends = None if run.ends is None else run.ends + now - run.suspended
        run.started += now - run.suspended
        run.suspended = None
        self._state(run, f.LeaseResumedV1(job=run.job, attempt=run.attempt, rank=run.rank, at=now))
        if run.ends is not None:
            self._at(run.ends, "end", run)
        if run.behaviour.checkpoint_every:
            self._at(now + run.behaviour.checkpoint_every, "checkpoint", run)

    def _kill(self, run: Run, now: int) -> None:
        """Kill a suspended job: it has had its grace, and has no devices to save from."""
        self._remove(run)
        self._state_ended(run, now, "killed", stopping=True)

    def finish(self, job: str, now: int, exit_code: int) -> None:
        """End the job's processes by themselves now."""
        for run in [run for run in self._all_runs() if run.job == job and not run.over]:
            run.exit_code = exit_code
            self._at(now, "end", run)

    def lose(self, node: str) -> None:
        """Stop everything on the node without a fact."""
        gone = [run for run in self._all_runs() if run.node == node]
        self.lost.setdefault(node, []).extend(gone)
        for run in gone:
            self._remove(run)

    def register(self, nodes: Nodes, name: str, now: int) -> AnyFact:
        """Return the node's registration; leases that ran when it was lost are stated as lost after it."""
        self.nodes[name] = nodes
        self.bring_up(name, now)
        memory = (gigabytes_in_name(nodes.gpu_model) or GIGABYTES) * 1024
        devices = tuple(
            Device(device=f"gpu{number}", model=nodes.gpu_model, memory=memory, mig=nodes.mig) for number in range(nodes.gpus)
        )
        return f.NodeRegisteredV1(
            node=name,
            labels=nodes.labels,
            devices=devices,
            cpu=nodes.cpus * CPU_UNITS,
            memory=nodes.memory,
            executor="simulated",
            isolation=nodes.isolation,
            levels=dict.fromkeys(CONTAINED, nodes.containers) if nodes.containers else {},
            reads=LEVEL,
            at=now,
        )

    def bring_up(self, name: str, now: int) -> None:
        """Bring a lost node up: leases that ran then are lost."""
        for run in self.lost.pop(name, ()):
            self._state_ended(run, now, "lost")

    def copy(self) -> SimulatedNodes:
        """Return an independent copy."""
        runs: dict[int, Run] = {}

        def mine(run: Run) -> Run:
            return runs.setdefault(id(run), copy(run))

        return replace(
            self,
            behaviours=dict(self.behaviours),
            runs={key: {rank: mine(run) for rank, run in of.items()} for key, of in self.runs.items()},
            nodes=dict(self.nodes),
            ended=dict(self.ended),
            troubles=dict(self.troubles),
            lost={node: [mine(run) for run in gone] for node, gone in self.lost.items()},
            saved=dict(self.saved),
            _due=[(at, order, what, mine(run), stint) for at, order, what, run, stint in self._due],
            _stated=list(self._stated),
        )

    def next_due(self) -> int | None:
        """Return the time of the next event on a node."""
        while self._due and (self._due[0][3].over or self._due[0][3].stint != self._due[0][4]):
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def will_end(self) -> bool:
        """Return whether any lease will end by itself; checkpoints alone go on for ever."""
        return any(what == "end" and not run.over and run.stint == stint for _, _, what, run, stint in self._due)

    def add_running(self, run: Run, now: int, *, started: bool) -> None:
        """Add a lease that runs already; `started`: its start was stated."""
        self._add(run)
        if not started:
            self._state(run, f.LeaseStartedV1(job=run.job, attempt=run.attempt, rank=run.rank, at=now, isolation="simulated"))
        if run.ends is not None and run.suspended is None:
            self._at(max(now, run.ends), "end", run)

    def pass_time(self, now: int) -> None:
        """Perform all events that are due."""
        while self._due and self._due[0][0] <= now:
            _, _, what, run, stint = heapq.heappop(self._due)
            if run.over or run.stint != stint:
                continue
            if what == "checkpoint":
                self._checkpoint(run, now)
            elif run.stopping and run.suspends and not run.finished:
                self._suspend(run, now)
            else:
                self._end(run, now)

    def _checkpoint(self, run: Run, now: int) -> None:
        self._save(run, now)
        self._at(now + (run.behaviour.checkpoint_every or 0), "checkpoint", run)

    def _save(self, run: Run, now: int) -> None:
        run.checkpoints += 1
        uri = f"sim:{run.job}/{run.attempt}/{run.checkpoints}"
        self.saved[uri] = run.done_before + now - run.started
        self._state(run, f.CheckpointRegisteredV1(job=run.job, attempt=run.attempt, uri=uri, step=run.checkpoints, at=now))

    def _end(self, run: Run, now: int) -> None:
        self._remove(run)
        if run.rank == 0 and (run.finished or not run.stopping):
            self.ended[run.job] = self.ended.get(run.job, 0) + 1
        ended = f.LeaseEndedV1(
            job=run.job,
            attempt=run.attempt,
            rank=run.rank,
            outcome="exited",
            exit_code=run.exit_code,
            finished=run.finished,
            stopping=run.stopping,
            exited_at=now,
            at=now,
        )
        self._state(run, ended)

    def _state_ended(self, run: Run, now: int, outcome: str, **more: Any) -> None:
        key: dict[str, Any] = {"job": run.job, "attempt": run.attempt, "rank": run.rank}
        self._state(run, f.LeaseEndedV1(outcome=outcome, exited_at=now, at=now, **key, **more))

    def _state(self, run: Run, fact: AnyFact) -> None:
        self._stated.append((node_writer(run.node), fact))

    def _at(self, moment: int, what: str, run: Run) -> None:
        self._order += 1
        heapq.heappush(self._due, (moment, self._order, what, run, run.stint))

    def take_facts(self) -> list[tuple[str, AnyFact]]:
        """Return (writer, fact) of everything the nodes have stated since the last call."""
        stated, self._stated = self._stated, []
        return stated
