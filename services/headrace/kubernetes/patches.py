"""What is sent to the API server: patches of pods, evictions, events. Pure.

Patches are JSON merge patches with the resource version of the pod that was read, so a pod that has changed since refuses them. A list in a
merge patch replaces the former one, which the version makes safe.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from headrace.contracts.values.durations import format_time
from headrace.kubernetes.objects import CONDITION, FINALIZER, GATE, JOB, LEASE, RANK

if TYPE_CHECKING:
    from headrace.kubernetes.objects import Json, Pod
    from headrace.kubernetes.view import Assign, SetCondition, Ungate

MESSAGE_MAX = 900
"""Characters of a message in a condition and an event; the API server takes 1,024."""


def assignment(step: Assign) -> dict[str, Any]:
    """The labels of a job and a rank."""
    return {"metadata": _meta(step.pod) | {"labels": {JOB: step.job, RANK: str(step.rank)}}}


def ungating(step: Ungate) -> dict[str, Any]:
    """The gate comes off, and the affinity, the lease and the finalizer come on, in one step."""
    spec, meta = step.pod.raw.get("spec") or {}, step.pod.raw.get("metadata") or {}
    gates = [gate for gate in spec.get("schedulingGates") or () if gate.get("name") != GATE]
    finalizers = [*(one for one in meta.get("finalizers") or () if one != FINALIZER), FINALIZER]
    return {
        "metadata": _meta(step.pod) | {"labels": {LEASE: f"{step.attempt}.{step.granted}"}, "finalizers": finalizers},
        "spec": {
            "schedulingGates": gates,
            "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms(spec, step.node)}}},
        },
    }


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def terms(spec: Json, node: str) -> list[dict[str, Any]]:
    """The terms of a pod's required node affinity, each narrowed to one node; a gated pod's may only become narrower."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    present = (affinity.get(REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return [{**term, "matchFields": [*(term.get("matchFields") or ()), field]} for term in present]


def release(pod: Pod) -> dict[str, Any]:
    """Without the bridge's finalizer."""
    meta = pod.raw.get("metadata") or {}
    return {"metadata": _meta(pod) | {"finalizers": [one for one in meta.get("finalizers") or () if one != FINALIZER]}}


def condition(step: SetCondition, now: int) -> dict[str, Any]:
    """The status with the bridge's condition; those of others stay. `now`: microseconds."""
    status = step.pod.raw.get("status") or {}
    others = [one for one in status.get("conditions") or () if one.get("type") != CONDITION]
    mine = {
        "type": CONDITION,
        "status": step.status,
        "reason": step.reason,
        "message": step.message[:MESSAGE_MAX],
        "lastTransitionTime": _seconds(now),
    }
    return {"metadata": _meta(step.pod), "status": {"conditions": [*others, mine]}}


def event(step: SetCondition, now: int) -> dict[str, Any]:
    """An event about the pod. Its name follows from what it says, so that the same is written once."""
    pod = step.pod
    digest = blake2b(f"{pod.uid} {step.status} {step.reason} {step.message}".encode(), digest_size=8).hexdigest()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{pod.name[:200]}.{digest}", "namespace": pod.namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
        "reason": step.reason,
        "message": step.message[:MESSAGE_MAX],
        "type": "Normal",
        "source": {"component": "headrace"},
        "firstTimestamp": _seconds(now),
        "lastTimestamp": _seconds(now),
        "count": 1,
    }


def deletion(pod: Pod, grace: int) -> dict[str, Any]:
    """Options of a deletion of this very pod."""
    return {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": grace, "preconditions": {"uid": pod.uid}}


def eviction(pod: Pod, grace: int) -> dict[str, Any]:
    """An eviction of this very pod."""
    meta = {"name": pod.name, "namespace": pod.namespace}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta, "deleteOptions": deletion(pod, grace)}


def _meta(pod: Pod) -> dict[str, Any]:
    return {"uid": pod.uid, "resourceVersion": pod.version}


def _seconds(now: int) -> str:
    return format_time(now)[:19] + "Z"
