"""Leases in the states that tests begin with, and what happens to them."""

from __future__ import annotations

from typing import Any

from headrace.contracts.facts import LeaseEndedV1, LeaseRungV1, LeaseStartedV1
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.messages.orders import StartOrder
from headrace.node_executor.core import lease as life
from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.core.phases import Lease

JOB = "acme.alice.01j9z3k4m5n6p7q8r9s0t1v2w3"

LEASE = f"{JOB}/1/0"

LADDER = Ladder(cause="preempted", callback_grace=60_000_000, term_grace=30_000_000, preemptor="acme.bob.x")


def s(seconds: float) -> int:
    return round(seconds * 1_000_000)


def started(seconds: float) -> v.Started:
    return v.Started(s(seconds), LEASE, "simulated")


def ladder_begun(seconds: float, *, hooked: bool = False) -> v.Notified:
    return v.Notified(s(seconds), LEASE, hooked)


def exited(seconds: float, code: int = 0, *, finished: bool = False) -> v.Exited:
    return v.Exited(s(seconds), LEASE, code, finished)


def free(seconds: float) -> v.DevicesFree:
    return v.DevicesFree(s(seconds), LEASE)


def rung(name: str, at: float, took: float, result: str) -> v.State:
    return v.State(LeaseRungV1(job=JOB, attempt=1, rung=name, at=s(at), took=s(took), result=result))


def ended(outcome: str, exited_at: float, at: float, **fields: Any) -> list[v.Action]:
    fact = LeaseEndedV1(job=JOB, attempt=1, outcome=outcome, exited_at=s(exited_at), at=s(at), **fields)
    return [v.State(fact), v.Release(LEASE)]


def set_timer(seconds: float) -> v.SetTimer:
    return v.SetTimer(LEASE, s(seconds))


class Conversation:
    """One lease, spoken to."""

    def __init__(self, *, on_abort: tuple[str, ...] = ()) -> None:
        order = StartOrder(lease=LEASE, job=JOB, attempt=1, granted=5, amounts={}, command=("train",), on_abort=on_abort)
        self.lease = Lease(order)
        out: list[v.Action] = []
        life.begin(self.lease, out)
        assert out == [v.Spawn(order)]

    def handle(self, event: v.LeaseEvent) -> list[v.Action]:
        out: list[v.Action] = []
        life.handle(self.lease, event, out)
        return out

    def is_stopped(self, at: float, ladder: Ladder = LADDER) -> list[v.Action]:
        out: list[v.Action] = []
        life.stop(self.lease, ladder, s(at), out)
        return out

    def is_halted(self, at: float, limit: float, reason: str = v.EXECUTOR_STOPPED) -> list[v.Action]:
        out: list[v.Action] = []
        life.halt(self.lease, s(at), s(limit), reason, out)
        return out


def running(*, on_abort: tuple[str, ...] = ()) -> Conversation:
    talk = Conversation(on_abort=on_abort)
    assert talk.handle(started(1)) == [v.State(LeaseStartedV1(job=JOB, attempt=1, at=s(1), isolation="simulated"))]
    return talk
