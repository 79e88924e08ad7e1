"""What leases ask for: gates that come off, pods that leave, and what is stated of them. Pure.

Strategy: level, not edge. What should run on a node and what pods are there are compared in every round; the difference is the steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import split_job_key
from headrace.kubernetes.view import Absent, Delete, Evict, Release, Ungate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.kubernetes.matching import Lease, Matching
    from headrace.kubernetes.objects import Pod

ISOLATION = "none"
"""The level of pods: the bridge proves nothing about what the kubelet and its device plugin keep apart."""

STRAY_GRACE = 30
"""Seconds that a pod without a lease has between SIGTERM and SIGKILL."""

NO_LEASE = "it has no lease"

NO_POD = 126
DELETED = 143
"""Exit codes: of a job that is not a pod, on a node that runs pods only, and of a pod that was deleted before it was placed."""


class Stated(NamedTuple):
    """Facts of a node about its leases. `absent`: pods that the facts say are not there."""

    facts: tuple[AnyFact, ...]
    absent: tuple[Absent, ...]


def facts_of(seen: Matching, node: str) -> Stated:
    """What became of the leases of a node."""
    facts: list[AnyFact] = []
    absent: list[Absent] = []
    for lease in seen.leases.values():
        if lease.node != node:
            continue
        pod = seen.serving.get(lease.id)
        if pod is not None:
            facts += _course_of(lease, pod, seen.view.now)
        elif seen.is_ours(lease.id.job) is False:
            facts.append(_ended(lease, seen.view.now, "exited", NO_POD, "this node runs pods only; submit to another queue"))
        elif lease.ladder is not None or lease.started:
            outcome = "lost" if lease.started else "never_started"
            facts.append(_ended(lease, seen.view.now, outcome, None, "its pod is gone" if lease.started else ""))
            namespace = seen.namespace_of(lease.id.job)
            absent.append(Absent(namespace, split_job_key(lease.id.job)[2], lease.id.attempt, lease.id.rank))
    return Stated(tuple(facts), tuple(absent))


def _course_of(lease: Lease, pod: Pod, now: int) -> Iterator[AnyFact]:
    job, attempt, rank = lease.id
    if pod.ran and not lease.started:
        yield f.LeaseStartedV1(job=job, attempt=attempt, rank=rank, at=now, isolation=ISOLATION)
    if not pod.is_over:
        return
    at = min(pod.finished_at or now, now)
    if pod.ran:
        yield _ended(lease, at, "exited", pod.exit_code, pod.message, now)
    elif lease.ladder is not None:
        yield _ended(lease, at, "never_started", None, pod.message, now)
    elif pod.deleting:
        yield _ended(lease, at, "exited", DELETED, "its pod was deleted before it ran", now)
    else:
        yield _ended(lease, at, "refused", None, pod.message or "the kubelet did not start it", now)


def _ended(lease: Lease, at: int, outcome: str, code: int | None, message: str, now: int = 0) -> f.LeaseEndedV1:
    job, attempt, rank = lease.id
    return f.LeaseEndedV1(
        job=job,
        attempt=attempt,
        rank=rank,
        outcome=outcome,
        exit_code=code,
        stopping=lease.ladder is not None and outcome != "never_started",
        message=message,
        exited_at=at,
        at=now or at,
    )


def gates(seen: Matching) -> Iterator[Ungate]:
    """Gates that come off: those of all pods of an attempt together, once all of its leases are known."""
    attempts: dict[tuple[str, int], list[Lease]] = {}
    for lease in seen.leases.values():
        if lease.ladder is None:
            attempts.setdefault((lease.id.job, lease.id.attempt), []).append(lease)
    for (key, attempt), leases in attempts.items():
        begun = any(pod.held is not None and pod.held.attempt == attempt for pod in seen.pods_of.get(key, ()) if not pod.gated)
        if len(leases) < leases[0].replicas and not begun:
            continue
        missing = [lease for lease in leases if lease.id not in seen.serving and not lease.started]
        found = [(lease, seen.gated_of(key, lease.id.rank)) for lease in missing]
        if any(pod is None for _, pod in found) and not begun:
            continue
        for lease, pod in found:
            node = seen.nodes.get(lease.node)
            if pod is not None and node is not None:
                yield Ungate(pod, node.called, attempt, lease.granted)


def leaving(seen: Matching) -> Iterator[Evict | Delete]:
    """Pods whose lease is to stop, and pods that may run and have no lease.

    One that names a lease was superseded while its node was lost (R32): an eviction tells its controller that the pod has not failed.
    """
    for lease, pod in seen.serving.items():
        ladder = seen.leases[lease].ladder
        if ladder is not None and not pod.deleting and not pod.is_over:
            yield Evict(pod, -(-(ladder.callback_grace + ladder.term_grace) // SECOND))
    for pod in seen.view.pods:
        stays = pod.gated or pod.deleting or pod.is_over or pod.namespace not in seen.view.accounts
        if not stays and seen.lost_lease(pod):
            leave = Evict if pod.held is not None else Delete
            yield leave(pod, STRAY_GRACE, NO_LEASE)


def releases(seen: Matching) -> Iterator[Release]:
    """Pods that have ended, and whose end is in the ledger, or of no interest to it."""
    for pod in seen.view.pods:
        if pod.finalized and pod.is_over and (pod.namespace not in seen.view.accounts or seen.lost_lease(pod)):
            yield Release(pod)
