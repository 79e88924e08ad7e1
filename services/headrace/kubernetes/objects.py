"""Pods and nodes of Kubernetes as the bridge sees them, read from the API server's JSON. Pure.

Pods are written by users: whatever cannot be read makes a pod refused, with the reason, and raises nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from headrace.contracts.values.durations import DurationError, parse_time
from headrace.contracts.values.ids import is_job_id, is_token

PREFIX = "headrace.dev/"
QUEUE = PREFIX + "queue"
GROUP = PREFIX + "group"
GROUP_SIZE = PREFIX + "group-size"
JOB = PREFIX + "job"
RANK = PREFIX + "rank"
LEASE = PREFIX + "lease"
BRIDGES_OWN = (JOB, RANK, LEASE)
"""Labels that only the bridge may write."""

GATE = PREFIX + "admission"
FINALIZER = PREFIX + "lease"
CONDITION = PREFIX + "admitted"
GPU_MODEL = PREFIX + "gpu-model"
DEFAULT_RESOURCE = "nvidia.com/gpu"

GROUP_SIZE_MAX = 1_000
MIB = 1024 * 1024

Json = Mapping[str, Any]

_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE]([0-9]{1,2})|(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi))?")
_SUFFIX = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTP", start=1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTP", start=1)},
}
_LEASE = re.compile(r"([1-9][0-9]{0,8})\.([1-9][0-9]{0,15})")
_SIZE = re.compile(r"[1-9][0-9]{0,3}")
_RANK = re.compile(r"0|[1-9][0-9]{0,3}")


class Held(NamedTuple):
    """The grant for which a pod's gate was taken off: the attempt, and the sequence of the grant in the ledger."""

    attempt: int
    granted: int


class Needs(NamedTuple):
    """What a pod requests: GPUs, millicores, MiB."""

    gpus: int = 0
    cpu: int = 0
    memory: int = 0


class Pod(NamedTuple):
    """A pod with the label of a queue.

    `version` is its resource version, `created` in microseconds. `queue` is `policy/profile`. `refused`: why it cannot become a job; empty
    if it can. `target`: the node that its affinity names. `ran`: whether a container has run. `exit_code`: of its containers, the first
    that is not 0; None if none has ended. `finished_at`: microseconds, 0 if unknown. `condition`: status, reason and message of the
    bridge's condition. `raw` is the object as it was read.
    """

    namespace: str
    name: str
    uid: str
    version: str
    created: int
    queue: str
    group: str
    size: int
    controller: str
    needs: Needs
    refused: str
    job: str
    rank: int
    held: Held | None
    gated: bool
    finalized: bool
    target: str
    node: str
    phase: str
    deleting: bool
    ran: bool
    exit_code: int | None
    finished_at: int
    message: str
    condition: tuple[str, str, str]
    raw: Json

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs or will run: it has ended, or was deleted before it was placed on a node."""
        return self.phase in ("Succeeded", "Failed") or (self.deleting and not self.node)

    @property
    def where(self) -> str:
        """Namespace and name, for people."""
        return f"{self.namespace}/{self.name}"


class KubernetesNode(NamedTuple):
    """A node of Kubernetes. `name` is Headrace's name for it, `called` that of Kubernetes. `labels`: those for pools. `memory` in MiB."""

    name: str
    called: str
    ready: bool
    closed: bool
    gpus: int
    model: str
    gpu_memory: int
    cpu: int
    memory: int
    labels: dict[str, str]


def quantity(text: object) -> Fraction:
    """A Kubernetes quantity such as `500m` or `16Gi`. Raises ValueError if malformed or negative."""
    return _quantity(str(text))


@lru_cache(maxsize=4_096)
def _quantity(text: str) -> Fraction:
    # The pods of a cluster request few different amounts, and each is read in every round.
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"invalid quantity {text[:40]!r}")
    number = Fraction(match[1].rstrip(".") if match[1] != "." else "0")
    return number * 10 ** int(match[2]) if match[2] else number * _SUFFIX[match[3] or ""]


def moment(text: object) -> int:
    """An RFC 3339 time in microseconds since 1970; 0 for anything else."""
    try:
        return parse_time(str(text or ""))
    except DurationError:
        return 0


def read_pod(raw: Json, resource: str) -> Pod:
    """A pod as the API server describes it. `resource`: the name of the extended resource that is a GPU."""
    meta, spec, status = raw.get("metadata") or {}, raw.get("spec") or {}, raw.get("status") or {}
    labels = meta.get("labels") or {}
    refused = ""
    try:
        needs = needs_of(spec, resource)
    except ValueError as error:
        needs, refused = Needs(), str(error)
    size = labels.get(GROUP_SIZE, "1")
    job = labels.get(JOB, "")
    rank = labels.get(RANK, "")
    ended = [one for one in _statuses(status) if "terminated" in (one.get("state") or {})]
    code, finished = _ending(ended)
    return Pod(
        namespace=meta.get("namespace", ""),
        name=meta.get("name", ""),
        uid=meta.get("uid", ""),
        version=meta.get("resourceVersion", ""),
        created=moment(meta.get("creationTimestamp")),
        queue=labels.get(QUEUE, "").replace(".", "/"),
        group=labels.get(GROUP, ""),
        size=int(size) if _SIZE.fullmatch(size) and GROUP in labels else 1,
        controller=next((one.get("uid", "") for one in meta.get("ownerReferences") or () if one.get("controller")), ""),
        needs=needs,
        refused=refused or wrong_labels(labels) or cannot_be_kept(spec, resource),
        job=job if is_job_id(job) and _RANK.fullmatch(rank) else "",
        rank=int(rank) if _RANK.fullmatch(rank) else 0,
        held=Held(int(found[1]), int(found[2])) if (found := _LEASE.fullmatch(labels.get(LEASE, ""))) else None,
        gated=any(gate.get("name") == GATE for gate in spec.get("schedulingGates") or ()),
        finalized=FINALIZER in (meta.get("finalizers") or ()),
        target=target_of(spec),
        node=spec.get("nodeName") or "",
        phase=status.get("phase", "Pending"),
        deleting=bool(meta.get("deletionTimestamp")),
        ran=bool(ended) or any("running" in (one.get("state") or {}) for one in _statuses(status)),
        exit_code=code,
        finished_at=finished,
        message=": ".join(filter(None, (status.get("reason", ""), status.get("message", ""))))[:500],
        condition=_condition(status),
        raw=raw,
    )


def wrong_labels(labels: Mapping[str, str]) -> str:
    """What is wrong with the labels that a user has written; empty if nothing is."""
    parts = labels.get(QUEUE, "").split(".")
    if len(parts) != 2 or not all(map(is_token, parts)):
        return f"label {QUEUE}: invalid queue {labels.get(QUEUE, '')!r}: write POLICY.PROFILE, such as ai-dev.half"
    size = labels.get(GROUP_SIZE)
    if (GROUP in labels) != (size is not None):
        return f"labels {GROUP} and {GROUP_SIZE} belong together; a pod of a group has both"
    if size is not None and not (_SIZE.fullmatch(size) and int(size) <= GROUP_SIZE_MAX):
        return f"label {GROUP_SIZE}: invalid size {size!r}: use 1 to {GROUP_SIZE_MAX}"
    return ""


def cannot_be_kept(spec: Json, resource: str) -> str:
    """What a pod asks for that Headrace cannot grant it; empty if it can."""
    if spec.get("resourceClaims"):
        return "spec.resourceClaims: claims of devices are not granted by Headrace; request whole GPUs by " + resource
    vendor = resource.partition("/")[0] + "/"
    for container in _containers(spec):
        for name in _requests(container):
            if name.startswith(vendor) and name != resource:
                return f"{name}: parts of GPUs are not granted to pods; request whole GPUs by {resource}"
    return ""


def needs_of(spec: Json, resource: str) -> Needs:
    """What the scheduler counts for a pod. Raises ValueError if it cannot be read, or is not exact in MiB and millicores."""
    first = [(_requests(one), one.get("restartPolicy") == "Always") for one in spec.get("initContainers") or ()]
    main = [_requests(one) for one in spec.get("containers") or ()]
    overhead = spec.get("overhead") or {}
    gpus, cpu, memory = (_counted(key, first, main, overhead) for key in (resource, "cpu", "memory"))
    cpu, memory = cpu * 1000, memory * Fraction(1, MIB)
    if gpus.denominator != 1:
        raise ValueError(f"{resource}: request whole GPUs")
    return Needs(int(gpus), -(-cpu.numerator // cpu.denominator), -(-memory.numerator // memory.denominator))


def _counted(key: str, first: list[tuple[Json, bool]], main: list[Json], overhead: Json) -> Fraction | int:
    """The amount of one resource: that of sidecars and containers, or of an init container beside the sidecars before it."""
    sidecars: Fraction | int = 0
    most: Fraction | int = 0
    for requests, is_sidecar in first:
        amount = quantity(requests[key]) if key in requests else 0
        sidecars += amount if is_sidecar else 0
        most = max(most, sidecars if is_sidecar else sidecars + amount)
    total = sidecars
    for requests in main:
        total += quantity(requests[key]) if key in requests else 0
    return max(total, most) + (quantity(overhead[key]) if key in overhead else 0)


def target_of(spec: Json) -> str:
    """The one node that every term of a pod's required affinity names; empty if they name none or several."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    named = {
        tuple(field.get("values") or ())
        for term in required.get("nodeSelectorTerms") or ()
        for field in term.get("matchFields") or ()
        if field.get("key") == "metadata.name" and field.get("operator") == "In"
    }
    return next(iter(named))[0] if len(named) == 1 and len(next(iter(named))) == 1 else ""


def read_node(raw: Json, resource: str) -> KubernetesNode | None:
    """A node as the API server describes it; None if its name cannot be one of Headrace."""
    meta, spec, status = raw.get("metadata") or {}, raw.get("spec") or {}, raw.get("status") or {}
    labels, able = meta.get("labels") or {}, status.get("allocatable") or {}
    called = meta.get("name", "")
    name = called.replace(".", "-")
    if not is_token(name):
        return None
    vendor = resource.partition("/")[0]
    memory = labels.get(f"{vendor}/gpu.memory", "0")
    return KubernetesNode(
        name=name,
        called=called,
        ready=any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ()),
        closed=bool(spec.get("unschedulable")),
        gpus=_whole(able.get(resource, 0)),
        model=labels.get(GPU_MODEL) or labels.get(f"{vendor}/gpu.product", "").removeprefix("NVIDIA-") or "unknown",
        gpu_memory=int(memory) if memory.isdecimal() and len(memory) < 10 else 0,
        cpu=_whole(able.get("cpu", 0), 1000),
        memory=_whole(able.get("memory", 0), Fraction(1, MIB)),
        labels={key.removeprefix(PREFIX): text for key, text in sorted(labels.items()) if key.startswith(PREFIX) and text},
    )


def foreign_gpus(raw: Json, resource: str) -> tuple[str, int]:
    """The node of a pod without the label of a queue, and the GPUs that it takes there; 0 if it has ended."""
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return spec.get("nodeName") or "", 0
    try:
        return spec.get("nodeName") or "", needs_of(spec, resource).gpus
    except ValueError:
        return spec.get("nodeName") or "", 0


def _whole(text: object, times: Fraction | int = 1) -> int:
    try:
        return int(quantity(text) * times)
    except ValueError:
        return 0


def _containers(spec: Json) -> Iterator[Json]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _requests(container: Json) -> Json:
    resources = container.get("resources") or {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _statuses(status: Json) -> Iterator[Json]:
    yield from status.get("containerStatuses") or ()


def _ending(ended: list[Json]) -> tuple[int | None, int]:
    terminated = [one["state"]["terminated"] for one in ended]
    codes = [one.get("exitCode", 0) for one in terminated]
    finished = max((moment(one.get("finishedAt")) for one in terminated), default=0)
    return next((code for code in codes if code), 0) if codes else None, finished


def _condition(status: Json) -> tuple[str, str, str]:
    for one in status.get("conditions") or ():
        if one.get("type") == CONDITION:
            return one.get("status", ""), one.get("reason", ""), one.get("message", "")
    return "", "", ""
