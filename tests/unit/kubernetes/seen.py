"""Pods, nodes and answers for tests of one round."""

from __future__ import annotations

from typing import Any

from headrace.contracts.facts.fact import DeviceShare, Ladder
from headrace.contracts.messages.orders import NodeAnswer, StartOrder, StopOrder
from headrace.contracts.messages.queries import JobView
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import lease_id
from headrace.kubernetes.identity import CLUSTER, NAMESPACE, UNIT, unit_of
from headrace.kubernetes.matching import Matching
from headrace.kubernetes.node_facts import registration
from headrace.kubernetes.objects import FINALIZER, GATE, GROUP, GROUP_SIZE, JOB, LEASE, QUEUE, RANK, Pod, read_node, read_pod
from headrace.kubernetes.view import View

GPU = "nvidia.com/gpu"
NOW = 1_767_225_700_000_000
ID = "01kdvdsjq0wt2e6j2g7qay1x5m"
KEY = f"acme.ci.{ID}"
ACCOUNTS = {"science": "acme.ci"}
LADDER = Ladder(cause="preempted", callback_grace=60 * SECOND, term_grace=30 * SECOND)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(name: str = "p", *, gated: bool = True, **fields: Any) -> Pod:
    """A pod of the namespace `science`; `fields`: labels (`job`, `rank`, `lease`, `group`, `size`), and `node`, `phase`, `code`."""
    keys = {"job": JOB, "rank": RANK, "lease": LEASE, "group": GROUP, "size": GROUP_SIZE}
    labels = {QUEUE: fields.get("queue", "ai-dev.half")} | {keys[key]: fields[key] for key in keys if key in fields}
    meta: dict[str, Any] = {
        "namespace": fields.get("namespace", "science"),
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": labels,
    }
    if fields.get("controller"):
        meta["ownerReferences"] = [{"uid": fields["controller"], "controller": True}]
    if fields.get("deleting"):
        meta["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    if fields.get("finalized", not gated):
        meta["finalizers"] = [FINALIZER]
    spec: dict[str, Any] = {"containers": [{"resources": {"requests": {GPU: str(fields.get("gpus", 1))}}}]}
    if gated:
        spec["schedulingGates"] = [{"name": GATE}]
    if target := fields.get("target", "" if gated else "n1"):
        field = {"key": "metadata.name", "operator": "In", "values": [target]}
        spec["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [field]}]}}}
    if fields.get("node", not gated):
        spec["nodeName"] = fields.get("node", "n1")
    status: dict[str, Any] = {"phase": fields.get("phase", "Pending")}
    if "code" in fields:
        ended = {"exitCode": fields["code"], "finishedAt": "2026-01-01T00:01:30Z"}
        status["containerStatuses"] = [{"state": {"terminated": ended}}]
    elif status["phase"] == "Running":
        status["containerStatuses"] = [{"state": {"running": {}}}]
    if fields.get("placed"):
        status["conditions"] = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": fields["placed"]}]
    return read_pod({"metadata": meta, "spec": spec, "status": status}, GPU)


def node(name: str = "n1", gpus: int = 2, *, ready: bool = True, closed: bool = False) -> Any:
    """A node of Kubernetes."""
    able = {GPU: str(gpus), "cpu": "8", "memory": "64Gi"}
    status = {"allocatable": able, "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}]}
    meta = {"name": name, "labels": {"headrace.dev/site": "hq", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}}
    return read_node({"metadata": meta, "spec": {"unschedulable": closed}, "status": status}, GPU)


def start(
    job: str = KEY, *, attempt: int = 1, rank: int = 0, replicas: int = 1, granted: int = 40, started: bool = False
) -> StartOrder:
    return StartOrder(
        lease=lease_id(job, attempt, rank),
        job=job,
        attempt=attempt,
        rank=rank,
        replicas=replicas,
        granted=granted,
        devices=(DeviceShare(device="gpu0", units=126_000),),
        amounts={"gpu": 126_000},
        command=("sh",),
        started=started,
    )


def stop(job: str = KEY, *, attempt: int = 1, rank: int = 0, started: bool = True) -> StopOrder:
    return StopOrder(lease=lease_id(job, attempt, rank), ordered=60, ladder=LADDER, started=started)


def answer(*orders: StartOrder | StopOrder, name: str = "n1", through: int = 80, **fields: Any) -> NodeAnswer:
    starts = tuple(order for order in orders if isinstance(order, StartOrder))
    stops = tuple(order for order in orders if isinstance(order, StopOrder))
    return NodeAnswer(node=name, through=through, last_record=9, now=NOW, level=3, starts=starts, stops=stops, **fields)


def job(of: Pod, state: str = "pending", *, replicas: int = 1, admitted: int = NOW, **more: Any) -> JobView:
    """The job of a pod, as the ledger has it."""
    labels = {CLUSTER: "test", NAMESPACE: "science", UNIT: unit_of(of).digest}
    fields = {"id": ID, "job": KEY, "tenant": "acme", "user": "ci", "name": of.name, "queue": of.queue}
    return JobView(**fields, state=state, replicas=replicas, admitted_at=admitted, labels=labels, **more)


def view(*pods: Pod, **fields: Any) -> View:
    """A round in which the nodes are registered as they are, if `registered` is not given."""
    nodes = fields.get("nodes", (node(),))
    answers = fields.get("answers", {"n1": answer()})
    made = View(
        cluster="test",
        accounts=fields.get("accounts", ACCOUNTS),
        pods=pods,
        nodes=nodes,
        answers=answers,
        jobs=fields.get("jobs", {}),
        listed=frozenset(fields.get("accounts", ACCOUNTS).values()),
        registered={},
        foreign=fields.get("foreign", {}),
        lacking=fields.get("lacking", {}),
        doubted=fields.get("doubted", {}),
        now=fields.get("now", NOW),
    )
    seen = Matching(made)
    known = {one.name: registration(seen, one) for one in nodes if one.name in answers}
    return made._replace(registered=fields.get("registered", known))
