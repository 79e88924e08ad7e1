"""Takes steps: each is one or two calls, conditional and repeatable. A step that fails is due again in the next round.

A refusal because the pod has changed or gone is not a failure: the next round sees why.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import structlog

from headrace.contracts.facts.nodes import NodeRegisteredV1
from headrace.contracts.facts.records import Record
from headrace.contracts.messages.submissions import JobSubmission
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import node_writer
from headrace.contracts.values.durations import SECOND
from headrace.kubernetes import patches
from headrace.kubernetes.objects import JOB, Json, read_pod
from headrace.kubernetes.view import Assign, Cancel, Delete, Evict, Release, SetCondition, State, Step, Submit, Ungate

ENGINE = "kubernetes"
AHEAD_ALLOWED = SECOND // 2
"""Microseconds that this machine's clock may be ahead of the log's time before that is used: later records are void (R34)."""

AT_ONCE = 16
"""Maximum number of calls to the API server at the same time."""

CONFLICT, GONE, NOT_FOUND, TOO_MANY = 409, 410, 404, 429
BUDGETS_CONTRADICT = 500
"""What an eviction is answered for a pod with several disruption budgets."""

_log = structlog.get_logger("headrace.kubernetes")


class ApiRefused(Exception):
    """The API server refused a request. `status` is that of HTTP."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message or f"HTTP {status}")
        self.status = status


class ApiAway(Exception):
    """The API server did not answer: the request may or may not have had its effect. `status` is that of HTTP, 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class LedgerAway(Exception):
    """The ledger or the API of Headrace did not answer, or refused. The request may or may not have had its effect."""


class Pods(Protocol):
    """Calls about pods. Each raises ApiRefused or ApiAway."""

    async def patch(self, namespace: str, name: str, patch: Json, subresource: str = "") -> None:
        """Apply a merge patch to a pod, or to its `status`."""

    async def evict(self, namespace: str, name: str, body: Json) -> None:
        """Evict a pod, with the options of its deletion."""

    async def delete(self, namespace: str, name: str, options: Json) -> None:
        """Delete a pod, with these options."""

    async def record_event(self, namespace: str, event: Json) -> None:
        """Write an event about a pod."""

    async def look(self, namespace: str, selector: str) -> Sequence[Json]:
        """The pods that a label selector finds, as they are stored now; `namespace` empty: in all."""


class Ledger(Protocol):
    """What is written to Headrace. Each raises LedgerAway."""

    async def submit(self, namespace: str, queue: str, submission: JobSubmission) -> None:
        """Submit a job for the account of a namespace; the same again is the same job."""

    async def cancel(self, namespace: str, job: str, reason: str) -> None:
        """Ask that a job ends."""

    async def append(self, node: str, payload: bytes, last: int) -> None:
        """Store a record of a node behind its last one, whose sequence is `last`."""


class Acting:
    """The calls. `clock`: microseconds. `registered`: by node what was stated of it last, for the next round."""

    def __init__(self, pods: Pods, ledger: Ledger, clock: Callable[[], int], resource: str) -> None:
        self._pods = pods
        self._ledger = ledger
        self._clock = clock
        self._resource = resource
        self.registered: dict[str, NodeRegisteredV1] = {}
        self.refused = 0
        self.taken = 0

    async def take_all(self, steps: Iterable[Step]) -> None:
        """Take all steps: facts first, then the others, several at a time."""
        steps = tuple(steps)
        for step in steps:
            if isinstance(step, State):
                await self.take(step)
        limit = asyncio.Semaphore(AT_ONCE)

        async def take(step: Step) -> None:
            async with limit:
                await self.take(step)

        await asyncio.gather(*(take(step) for step in steps if not isinstance(step, State)))

    async def take(self, step: Step) -> None:
        """Take one step; a failure is noted and raises nothing."""
        try:
            await self._do(step)
            self.taken += 1
        except ApiRefused as error:
            if error.status in (CONFLICT, NOT_FOUND):
                _log.debug("too_late", step=type(step).__name__, reason=str(error))
                return
            self.refused += 1
            _log.warning("refused", step=type(step).__name__, status=error.status, reason=str(error))
        except (ApiAway, LedgerAway) as error:
            _log.warning("away", step=type(step).__name__, reason=str(error))

    async def _do(self, step: Step) -> None:
        match step:
            case State():
                await self._state(step)
            case Assign(pod):
                await self._pods.patch(pod.namespace, pod.name, patches.assignment(step))
            case Ungate(pod):
                await self._pods.patch(pod.namespace, pod.name, patches.ungating(step))
            case Release(pod):
                await self._pods.patch(pod.namespace, pod.name, patches.release(pod))
            case Evict(pod, _, why):
                if why:
                    _log.warning("pod_without_lease", pod=pod.where, reason=why)
                await self._evict(step)
            case Delete(pod, grace, why):
                _log.warning("pod_without_lease", pod=pod.where, reason=why)
                await self._pods.delete(pod.namespace, pod.name, patches.deletion(pod, grace))
            case Submit(namespace, queue, submission):
                await self._ledger.submit(namespace, queue, submission)
            case Cancel(namespace, job, reason):
                await self._ledger.cancel(namespace, job, reason)
            case SetCondition(pod):
                await self._set_condition(step)

    async def _evict(self, step: Evict) -> None:
        """Evict, or delete where a disruption budget forbids the eviction: the devices are promised to another."""
        pod = step.pod
        try:
            await self._pods.evict(pod.namespace, pod.name, patches.eviction(pod, step.grace))
        except (ApiRefused, ApiAway) as error:
            if error.status not in (TOO_MANY, BUDGETS_CONTRADICT):
                raise
            _log.warning("disruption_budget_overruled", pod=pod.where, reason=str(error))
            await self._pods.delete(pod.namespace, pod.name, patches.deletion(pod, step.grace))

    async def _set_condition(self, step: SetCondition) -> None:
        now = self._clock()
        await self._pods.patch(step.pod.namespace, step.pod.name, patches.condition(step, now), "status")
        await self._pods.record_event(step.pod.namespace, patches.event(step, now))

    async def _state(self, step: State) -> None:
        for one in step.absent:
            found = await self._pods.look(one.namespace, f"{JOB}={one.job}")
            pods = [read_pod(raw, self._resource) for raw in found]
            held = [pod.held for pod in pods if pod.rank == one.rank and not pod.gated]
            if any(lease is not None and lease.attempt == one.attempt for lease in held):
                return  # what was seen was old
        now = self._clock()
        if step.log_time and now - step.log_time > AHEAD_ALLOWED:
            now = step.log_time
        record = Record(by=node_writer(step.node), now=now, engine=ENGINE, as_of=step.as_of, facts=step.facts)
        await self._ledger.append(step.node, encode(record), step.last_record)
        for fact in step.facts:
            if isinstance(fact, NodeRegisteredV1):
                self.registered[step.node] = fact
