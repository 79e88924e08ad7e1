"""Which pod is which lease, from what is seen in one round. Pure.

A pod serves a lease if its labels name the job, the rank and the attempt, and its affinity names the node of the lease. Of two that claim
the same lease the older one serves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.durations import MINUTE
from headrace.contracts.values.ids import job_key, split_job_key, split_lease_id
from headrace.kubernetes.identity import CLUSTER, NAMESPACE, UNIT, in_order, unit_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.contracts.facts.fact import Ladder
    from headrace.contracts.messages.queries import JobView
    from headrace.kubernetes.objects import KubernetesNode, Pod
    from headrace.kubernetes.view import View

ENDED = frozenset({"succeeded", "failed", "cancelled", "rejected"})
"""States of a job that are final."""


BELIEVED = 2 * MINUTE
"""How long answers may be older than the grant that a pod's label names."""


class LeaseId(NamedTuple):
    """One replica of one attempt of a job."""

    job: str
    attempt: int
    rank: int


class Lease(NamedTuple):
    """A lease that the ledger holds on a node. `granted`: 0 if it is to stop; `ladder`: how, None if it is to run."""

    id: LeaseId
    node: str
    granted: int
    started: bool
    replicas: int
    ladder: Ladder | None


class Matching:
    """Leases and pods of one view."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.nodes = {node.name: node for node in view.nodes}
        self._by_called = {node.called: node for node in view.nodes}
        self.leases = {lease.id: lease for lease in _leases(view)}
        self.pods_of: dict[str, list[Pod]] = {}
        """By job key all pods whose labels name it, oldest first."""
        self.serving: dict[LeaseId, Pod] = {}
        for pod in in_order(view.pods):
            key = self.key_of(pod)
            if key:
                self.pods_of.setdefault(key, []).append(pod)
                self._serve(key, pod)

    def _serve(self, key: str, pod: Pod) -> None:
        if pod.gated or pod.held is None:
            return
        lease = self.leases.get(LeaseId(key, pod.held.attempt, pod.rank))
        if lease is not None and lease.id not in self.serving and self.node_of(pod) is self.nodes.get(lease.node):
            self.serving[lease.id] = pod

    def key_of(self, pod: Pod) -> str:
        """The key of the job that a pod's labels name; empty without one."""
        account = self.view.accounts.get(pod.namespace)
        if account is None or not pod.job:
            return ""
        tenant, _, user = account.partition(".")
        return job_key(tenant, user, pod.job)

    def node_of(self, pod: Pod) -> KubernetesNode | None:
        """The node that a pod was sent to."""
        return self._by_called.get(pod.target)

    def namespace_of(self, key: str) -> str:
        """The namespace of a job of ours; empty if none of ours."""
        tenant, user, _ = split_job_key(key)
        account = f"{tenant}.{user}"
        job = self.view.jobs.get(key)
        named = job.labels.get(NAMESPACE, "") if job is not None else ""
        return named if self.view.accounts.get(named) == account else ""

    def is_ours(self, key: str) -> bool | None:
        """Whether a job is that of a pod; None if it is not known."""
        if key in self.pods_of:
            return True
        if key not in self.view.jobs:
            tenant, user, _ = split_job_key(key)
            return None if f"{tenant}.{user}" in self.view.accounts.values() else False
        job = self.view.jobs[key]
        return job is not None and job.labels.get(CLUSTER) == self.view.cluster and bool(self.namespace_of(key))

    def gated_of(self, key: str, rank: int) -> Pod | None:
        """The gated pod that waits for a rank of a job, and requests what the job was made with.

        Labels may have been written by a user, and a pod that requests more must not run for a grant of less.
        """
        job = self.view.jobs.get(key)
        unit = job.labels.get(UNIT, "") if job is not None else ""
        return next((pod for pod in self.pods_of.get(key, ()) if self._waits(pod, rank, unit)), None)

    def _waits(self, pod: Pod, rank: int, unit: str) -> bool:
        return pod.gated and not pod.deleting and not pod.refused and pod.rank == rank and unit_of(pod).digest == unit

    def has_lease(self, pod: Pod) -> bool:
        """Whether the pod serves a lease that is held."""
        key = self.key_of(pod)
        return pod.held is not None and bool(key) and self.serving.get(LeaseId(key, pod.held.attempt, pod.rank)) is pod

    def lost_lease(self, pod: Pod) -> bool:
        """Whether the ledger is known to hold no lease for the pod. An answer from before its grant says nothing of it.

        A grant that no answer knows for long was never given: a user has written the label.
        """
        if self.has_lease(pod):
            return False
        if pod.held is None or not pod.job or not pod.target:
            return True
        job = self.job_of(pod)
        if job is not None and job.state in ENDED:
            return True
        is_known = self._knows_grant(pod)
        return is_known is not None and (is_known or self.view.now - self.view.doubted.get(pod.uid, self.view.now) > BELIEVED)

    def is_doubtful(self, pod: Pod) -> bool | None:
        """Whether the pod names a grant that its node's answer is too old for; None without an answer."""
        if pod.held is None or self.has_lease(pod):
            return False
        is_known = self._knows_grant(pod)
        return None if is_known is None else not is_known

    def _knows_grant(self, pod: Pod) -> bool | None:
        """Whether the answer of the pod's node is from behind the grant that its label names; None without an answer."""
        node = self.node_of(pod)
        answer = self.view.answers.get(node.name) if node is not None else None
        return None if answer is None or pod.held is None else answer.through >= pod.held.granted

    def job_of(self, pod: Pod) -> JobView | None:
        """The job of a pod, if the ledger has it."""
        return self.view.jobs.get(self.key_of(pod))


def doubted(seen: Matching, before: Mapping[str, int]) -> dict[str, int]:
    """Pods whose grant no answer knows, by the moment since when they have been seen so. `before`: the same of the former round."""
    doubtful = {pod.uid: seen.is_doubtful(pod) for pod in seen.view.pods}
    return {
        uid: before.get(uid, seen.view.now) for uid, is_so in doubtful.items() if is_so or (is_so is None and uid in before)
    }


def _leases(view: View) -> Iterator[Lease]:
    for node, answer in sorted(view.answers.items()):
        for order in answer.starts:
            lease = LeaseId(order.job, order.attempt, order.rank)
            yield Lease(lease, node, order.granted, order.started, order.replicas, None)
        for stop in answer.stops:
            lease = LeaseId(*split_lease_id(stop.lease))
            yield Lease(lease, node, 0, stop.started, 0, stop.ladder)
