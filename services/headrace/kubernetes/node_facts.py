"""What a node of Kubernetes states of itself. Pure.

GPUs are numbered `gpu0` and so on: which of them a pod gets is the choice of the kubelet's device plugin, so only their number counts. GPUs
that pods of others take are unfit, so that nothing is granted on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.contracts import facts as f
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.nodes import Device
from headrace.contracts.values.isolation import CONTAINED, FRACTION, SLICE, UNABLE
from headrace.kubernetes.lease_steps import ISOLATION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.kubernetes.matching import Matching
    from headrace.kubernetes.objects import KubernetesNode

EXECUTOR = "kubernetes"
CLOSED = "the node is unschedulable in Kubernetes"
FOREIGN = "taken by a pod that is not of Headrace"

KINDS = dict.fromkeys((FRACTION, SLICE, *CONTAINED), UNABLE)
"""Jobs that nodes of the bridge cannot run: parts of GPUs, and jobs with an image that are not pods."""


def registration(seen: Matching, node: KubernetesNode) -> f.NodeRegisteredV1:
    """What the node is now, without the time."""
    answer = seen.view.answers[node.name]
    held = {share.device for order in answer.starts for share in order.devices}
    names = [f"gpu{number}" for number in range(node.gpus)]
    spare = [name for name in names if name not in held]
    foreign = seen.view.foreign.get(node.called, 0)
    taken = set(spare[max(0, len(spare) - foreign) :]) if foreign else set()
    why = dict.fromkeys(names if node.closed else taken, CLOSED if node.closed else FOREIGN)
    return f.NodeRegisteredV1(
        node=node.name,
        labels=node.labels,
        devices=tuple(Device(device=name, model=node.model, memory=node.gpu_memory, unfit=why.get(name, "")) for name in names),
        cpu=node.cpu,
        memory=node.memory,
        executor=EXECUTOR,
        isolation=ISOLATION,
        levels=KINDS,
        reads=LEVEL,
        at=0,
    )


def facts_of(seen: Matching, node: KubernetesNode) -> Iterator[AnyFact]:
    """Its registration, if it says something new or the node had been given up, and the answer to a check."""
    view = seen.view
    answer = view.answers[node.name]
    if not node.ready:
        return
    now = registration(seen, node)
    stated = view.registered.get(node.name)
    is_new = stated is None or answer.lost or msgspec.structs.replace(stated, holding=(), at=0) != now
    if is_new and not _has_strays(seen, node):
        holding = tuple(
            f"{lease.job}/{lease.attempt}/{lease.rank}" for lease, pod in seen.serving.items() if seen.node_of(pod) is node
        )
        yield msgspec.structs.replace(now, holding=holding, at=view.now)
    if answer.check:
        yield f.NodeCheckedV1(
            node=node.name, ordered=answer.check, passed=not node.closed, message=CLOSED if node.closed else "", at=view.now
        )


def _has_strays(seen: Matching, node: KubernetesNode) -> bool:
    """Whether pods may run there whose lease was revoked: they leave before the node reports (R32)."""
    return any(
        seen.node_of(pod) is node and not pod.gated and not pod.is_over and not seen.has_lease(pod) for pod in seen.view.pods
    )


def beating(seen: Matching) -> list[str]:
    """Nodes that live, as Kubernetes says."""
    return [node.name for node in seen.view.nodes if node.ready and node.name in seen.view.answers]
