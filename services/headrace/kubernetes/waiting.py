"""What gated pods ask for: their job, its submission, its end when they are gone, and a condition that says why they wait. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.messages.submissions import JobSubmission
from headrace.contracts.values.amounts import CPU, GPU, MEMORY, format_amount
from headrace.contracts.values.durations import MINUTE
from headrace.contracts.values.ids import split_job_key
from headrace.kubernetes.identity import CLUSTER, NAMESPACE, UNIT, Unit, in_order, is_for, job_id, unit_of
from headrace.kubernetes.matching import ENDED, Matching
from headrace.kubernetes.view import Assign, Cancel, SetCondition, Submit

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from headrace.contracts.messages.queries import JobView
    from headrace.kubernetes.objects import Pod
    from headrace.kubernetes.view import Step

PATIENCE = MINUTE
"""How long a job may be without its pods before it is cancelled: a controller makes new ones, and another bridge may see them first.

It is counted from when this process has first seen it so. By the ledger's times a job that lost its node while no bridge ran would be
cancelled before its controller could make another pod.
"""

COMMAND = ("sh", "-c", "echo 'this job is a pod of Kubernetes and runs only on nodes of the bridge' >&2; exit 126")
"""The command of a job that is a pod, for a node that takes it for a job of its own."""

NAME_MAX = 63

WITHOUT_ACCOUNT = "namespace {} has no service account of Headrace"


def waiting(seen: Matching) -> Iterator[Step]:
    """The steps of pods that wait, except their conditions."""
    free: dict[Unit, list[Pod]] = {}
    for pod in in_order(seen.view.pods):
        if is_candidate(seen, pod) and (pod.job == "" or has_no_job(seen, pod)):
            free.setdefault(unit_of(pod), []).append(pod)
    adopting = _adoptable(seen)
    for unit, pods in free.items():
        taken = yield from _adopt(seen, adopting.get((unit.namespace, unit.digest), []), pods)
        left = [pod for pod in pods if pod not in taken]
        while len(left) >= unit.size:
            yield from _form(seen, unit, left[: unit.size])
            left = left[unit.size :]
    yield from _cancels(seen)


def is_candidate(seen: Matching, pod: Pod) -> bool:
    """Whether a pod waits for Headrace, and can be granted something."""
    return pod.gated and not pod.deleting and not pod.refused and pod.namespace in seen.view.accounts


def has_no_job(seen: Matching, pod: Pod) -> bool:
    """Whether the ledger is known to have no job for a labelled pod that it could still run."""
    key = seen.key_of(pod)
    if key not in seen.view.jobs:
        return False
    job = seen.view.jobs[key]
    if job is None or job.state in ENDED or job.labels.get(UNIT) != unit_of(pod).digest:
        return True
    is_served = any(lease.job == key and lease.rank == pod.rank for lease in seen.serving)
    return is_served or pod.rank >= job.replicas or seen.gated_of(key, pod.rank) is not pod


def _adoptable(seen: Matching) -> dict[tuple[str, str], list[str]]:
    """Pending jobs that lack pods, by namespace and unit, oldest first."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for key, job in seen.view.jobs.items():
        if job is not None and job.state == "pending" and seen.is_ours(key) and _missing(seen, key, job):
            place = job.labels.get(NAMESPACE, ""), job.labels.get(UNIT, "")
            found.setdefault(place, []).append((job.admitted_at, key))
    return {place: [key for _, key in sorted(jobs)] for place, jobs in found.items()}


def _missing(seen: Matching, key: str, job: JobView) -> list[int]:
    """Ranks of a job that no gated pod waits for."""
    return [rank for rank in range(job.replicas) if seen.gated_of(key, rank) is None]


def _adopt(seen: Matching, jobs: list[str], pods: list[Pod]) -> Generator[Step, None, list[Pod]]:
    """Give free pods to jobs whose pods have gone; returns those that were given."""
    taken: list[Pod] = []
    for key in jobs:
        job = seen.view.jobs[key]
        if job is None:
            continue
        for rank in _missing(seen, key, job):
            pod = next((one for one in pods if one not in taken), None)
            if pod is None:
                return taken
            taken.append(pod)
            yield Assign(pod, split_job_key(key)[2], rank)
    return taken


def _form(seen: Matching, unit: Unit, pods: list[Pod]) -> Iterator[Step]:
    """Make a job of a whole set of pods: first they learn its id and their ranks, then it is submitted."""
    made = job_id(seen.view.cluster, pods, seen.view.now)
    known = sorted(pod.job for pod in pods if is_for(pod.job, made) and not _lives(seen, pod))
    chosen = known[0] if known else made
    wrong = [(rank, pod) for rank, pod in enumerate(pods) if (pod.job, pod.rank) != (chosen, rank)]
    for rank, pod in wrong:
        yield Assign(pod, chosen, rank)
    if not wrong and seen.job_of(pods[0]) is None:
        yield Submit(unit.namespace, unit.queue, submission_of(seen.view.cluster, unit, pods, chosen))


def _lives(seen: Matching, pod: Pod) -> bool:
    """Whether the job that a free pod names has not ended: then other pods have taken the place for which it was made."""
    job = seen.job_of(pod)
    return job is not None and job.state not in ENDED


def submission_of(cluster: str, unit: Unit, pods: list[Pod], chosen: str) -> JobSubmission:
    """The job of a set of pods; the same pods and id give the same submission."""
    needs = unit.needs
    return JobSubmission(
        id=chosen,
        command=COMMAND,
        name=(unit.group or pods[0].name)[:NAME_MAX],
        request={
            GPU: str(needs.gpus),
            **({CPU: format_amount(CPU, needs.cpu)} if needs.cpu else {}),
            **({MEMORY: format_amount(MEMORY, needs.memory)} if needs.memory else {}),
        },
        labels={CLUSTER: cluster, NAMESPACE: unit.namespace, UNIT: unit.digest},
    )


def _cancels(seen: Matching) -> Iterator[Cancel]:
    """Jobs that can never run, or whose pods have gone and are not replaced."""
    for key, job in seen.view.jobs.items():
        if job is None or job.state in ENDED or not seen.is_ours(key):
            continue
        namespace = seen.namespace_of(key)
        pods = seen.pods_of.get(key, [])
        sizes = {pod.size for pod in pods}
        if job.state == "pending" and sizes and sizes != {job.replicas}:
            reason = f"the profile has {job.replicas} replicas, and the group {max(sizes)} pods; they have to be the same"
            yield Cancel(namespace, key, reason)
        elif namespace and seen.view.now - seen.view.lacking.get(key, seen.view.now) >= PATIENCE and _is_left(seen, key, job):
            yield Cancel(namespace, key, "its pods are gone")


def lacking(seen: Matching, before: Mapping[str, int]) -> dict[str, int]:
    """Jobs without their pods, by the moment since when they have been seen so. `before`: the same of the former round."""
    jobs = seen.view.jobs.items()
    return {key: before.get(key, seen.view.now) for key, job in jobs if job is not None and _is_left(seen, key, job)}


def _is_left(seen: Matching, key: str, job: JobView) -> bool:
    """Whether a job lacks pods that it waits for, or holds a lease that no pod can begin."""
    account = seen.view.accounts.get(seen.namespace_of(key), "")
    if job.state in ENDED or not seen.is_ours(key) or account not in seen.view.listed:
        return False
    if job.state == "pending":
        return bool(_missing(seen, key, job))
    unserved = (lease for lease in seen.leases.values() if lease.id.job == key and lease.ladder is None and not lease.started)
    return any(lease.id not in seen.serving and seen.gated_of(key, lease.id.rank) is None for lease in unserved)


def conditions(seen: Matching) -> Iterator[SetCondition]:
    """Conditions of pods that differ from those they have."""
    for pod in seen.view.pods:
        condition = _status_of(seen, pod)
        if condition is not None and condition != pod.condition and not pod.is_over and not pod.deleting:
            yield SetCondition(pod, *condition)


def _status_of(seen: Matching, pod: Pod) -> tuple[str, str, str] | None:
    """Status, reason and message of a pod's condition; None if nothing is known."""
    if not pod.gated:
        return ("True", "GRANTED", f"granted on node {pod.target}") if seen.has_lease(pod) else None
    if pod.refused:
        return "False", "REFUSED", pod.refused
    if pod.namespace not in seen.view.accounts:
        return "False", "REFUSED", WITHOUT_ACCOUNT.format(pod.namespace)
    key = seen.key_of(pod)
    if not pod.job or key not in seen.view.jobs:
        waits = "PENDING", f"waits for the {pod.size} pods of group {pod.group}" if pod.size > 1 else "is being submitted"
        return ("False", *waits) if not pod.job else None
    job = seen.view.jobs[key]
    if job is None:
        return "False", "PENDING", "is being submitted"
    if job.state in ENDED:
        return "False", (job.reason or job.state).upper(), job.message or f"job {job.id} has ended: {job.state}"
    return "False", (job.reason or job.state).upper(), job.message or f"job {job.id} is {job.state}"
