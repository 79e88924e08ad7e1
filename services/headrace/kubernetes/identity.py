"""Which pods are one job, and how the job's id is made. Pure.

A *unit* is what pods that may stand for each other have in common: namespace, queue, group, controller and requests. A pod without a group
and a controller is a unit of its own. Pods learn their job's id as a label before the job is submitted, so that the label alone says
later which job they are. The second part of an id names the set of pods for which it was made, so that the same pods do not make a second
job after theirs has ended.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.ids import ENTROPY_BYTES, make_job_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.kubernetes.objects import Needs, Pod

CLUSTER = "kubernetes"
UNIT = "kubernetes-unit"
NAMESPACE = "kubernetes-namespace"
"""Labels of jobs that are pods: the cluster, the unit and the namespace."""

SET_PART = 16
"""Characters at the end of a job id that name the set of pods."""


class Unit(NamedTuple):
    """What pods of one job have in common. `own`: the uid of the pod, if no other pod may stand for it."""

    namespace: str
    queue: str
    group: str
    size: int
    controller: str
    needs: Needs
    own: str

    @property
    def digest(self) -> str:
        """The unit in 32 characters, as a label of its jobs."""
        return blake2b("\n".join(map(str, self)).encode(), digest_size=16).hexdigest()

    @property
    def is_replaced(self) -> bool:
        """Whether other pods may come for those that have gone."""
        return not self.own


def unit_of(pod: Pod) -> Unit:
    """The unit of a pod."""
    own = "" if pod.controller or pod.group else pod.uid
    return Unit(pod.namespace, pod.queue, pod.group, pod.size, pod.controller, pod.needs, own)


def in_order(pods: Iterable[Pod]) -> list[Pod]:
    """Pods by age, then uid."""
    return sorted(pods, key=lambda pod: (pod.created, pod.uid))


def job_id(cluster: str, pods: Iterable[Pod], now: int) -> str:
    """A job id for a set of pods, made at `now` (microseconds)."""
    named = "\n".join([cluster, *sorted(pod.uid for pod in pods)])
    return make_job_id(now // 1_000, blake2b(named.encode(), digest_size=ENTROPY_BYTES).digest())


def is_for(job: str, made: str) -> bool:
    """Whether two ids were made for the same set of pods, perhaps at different times."""
    return job[-SET_PART:] == made[-SET_PART:]
