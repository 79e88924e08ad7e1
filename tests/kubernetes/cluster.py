"""A cluster as a model: an API server's objects, with what it refuses, and a scheduler, kubelets and controllers that act step by step.

What the API server is documented to do is here as far as the bridge depends on it: resource versions and conflicts, watches that grow too
old, gates that only come off, an affinity that only becomes narrower, finalizers, graces, evictions and disruption budgets.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

from headrace.kubernetes.objects import GATE, QUEUE, read_pod

GPU = "nvidia.com/gpu"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
KEPT = 200
"""Number of changes that a watch may lag behind."""


class Refusal(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Change(NamedTuple):
    version: int
    type: str
    kind: str
    raw: dict[str, Any]


def merged(old: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class Cluster:
    """`now`: seconds since 1970, which the player of the model moves on.

    `budgets`: namespaces in which no eviction is allowed; `doubled`: namespaces whose pods have two budgets.
    """

    def __init__(self, now: int = 1_767_225_600) -> None:
        self.now = now
        self.version = 0
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.changes: list[Change] = []
        self.forgotten = 0
        self.events: dict[tuple[str, str], dict[str, Any]] = {}
        self.down: set[str] = set()
        self.budgets: set[str] = set()
        self.doubled: set[str] = set()
        self._made = 0

    # the API server

    def _changed(self, type_: str, kind: str, raw: dict[str, Any]) -> None:
        self.version += 1
        raw["metadata"]["resourceVersion"] = str(self.version)
        self.changes.append(Change(self.version, type_, kind, deepcopy(raw)))
        self.forget(KEPT)

    def forget(self, kept: int = 0) -> None:
        """Know only the last `kept` changes: a watch from before has to list again."""
        gone = len(self.changes) - kept
        if gone > 0:
            self.forgotten = self.changes[gone - 1].version
            del self.changes[:gone]

    def create(self, kind: str, raw: dict[str, Any], *, gated: bool = True) -> dict[str, Any]:
        """Store an object; a pod of a queue as the webhook leaves it, unless it was away (`gated` False)."""
        raw = deepcopy(raw)
        meta = raw.setdefault("metadata", {})
        key = (kind, meta.get("namespace", ""), meta["name"])
        if key in self.objects:
            raise Refusal(409, "AlreadyExists")
        self._made += 1
        meta["uid"] = f"uid-{self._made:06d}"
        meta["creationTimestamp"] = self.time()
        if kind == "pods":
            raw.setdefault("status", {"phase": "Pending"})
            if gated and QUEUE in meta.get("labels", {}):
                raw["spec"].setdefault("schedulingGates", []).append({"name": GATE})
        self.objects[key] = raw
        self._changed("ADDED", kind, raw)
        return deepcopy(raw)

    def get(self, kind: str, namespace: str, name: str) -> dict[str, Any]:
        try:
            return self.objects[kind, namespace, name]
        except KeyError:
            raise Refusal(404, f"{kind} {namespace}/{name} not found") from None

    def list(self, kind: str, namespace: str = "", selector: str = "") -> list[dict[str, Any]]:
        return [
            deepcopy(raw)
            for (of, where, _), raw in sorted(self.objects.items())
            if of == kind and namespace in ("", where) and selected(raw, selector)
        ]

    def patch(self, kind: str, namespace: str, name: str, patch: dict[str, Any], subresource: str = "") -> dict[str, Any]:
        old = self.get(kind, namespace, name)
        wanted = patch.get("metadata", {})
        for field in ("uid", "resourceVersion"):
            if wanted.get(field, old["metadata"][field]) != old["metadata"][field]:
                raise Refusal(409, f"the object has been modified: {field}")
        if subresource == "status":
            new = {**old, "status": merged(old.get("status", {}), patch.get("status", {}))}
        else:
            new = {**merged(old, patch), "status": old.get("status", {})}
            if kind == "pods":
                check_update(old, new)
        if new == old:
            return deepcopy(old)
        self.objects[kind, namespace, name] = new
        self._changed("MODIFIED", kind, new)
        self._collect(namespace, name)
        return deepcopy(new)

    def delete(self, namespace: str, name: str, options: dict[str, Any] | None = None) -> None:
        pod = self.get("pods", namespace, name)
        options = options or {}
        if options.get("preconditions", {}).get("uid", pod["metadata"]["uid"]) != pod["metadata"]["uid"]:
            raise Refusal(409, "Precondition failed: UID")
        if "deletionTimestamp" not in pod["metadata"]:
            grace = options.get("gracePeriodSeconds", 30)
            over = pod["status"]["phase"] in ("Succeeded", "Failed") or not pod["spec"].get("nodeName")
            pod["metadata"]["deletionTimestamp"] = self.time(self.now + (0 if over else grace))
            pod["metadata"]["deletionGracePeriodSeconds"] = 0 if over else grace
            self._changed("MODIFIED", "pods", pod)
        self._collect(namespace, name)

    def evict(self, namespace: str, name: str, body: dict[str, Any]) -> None:
        pod = self.get("pods", namespace, name)
        if namespace in self.doubled:
            raise Refusal(
                500, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            )
        if pod["spec"].get("schedulingGates") or namespace not in self.budgets:
            self.delete(namespace, name, body.get("deleteOptions"))
            return
        raise Refusal(429, "Cannot evict pod as it would violate the pod's disruption budget.")

    def record_event(self, namespace: str, event: dict[str, Any]) -> None:
        key = namespace, event["metadata"]["name"]
        if key in self.events:
            raise Refusal(409, "AlreadyExists")
        self.events[key] = deepcopy(event)

    def since(self, version: int) -> list[Change]:
        """Changes after a version; 410 if they are no longer known."""
        if version < self.forgotten or version < 0:
            raise Refusal(410, "too old resource version")
        return [change for change in self.changes if change.version > version]

    def _collect(self, namespace: str, name: str) -> None:
        pod = self.objects.get(("pods", namespace, name))
        if pod is None or "deletionTimestamp" not in pod["metadata"] or pod["metadata"].get("finalizers"):
            return
        if pod["status"]["phase"] in ("Succeeded", "Failed") or not pod["spec"].get("nodeName"):
            del self.objects["pods", namespace, name]
            self._changed("DELETED", "pods", pod)

    def time(self, at: int | None = None) -> str:
        from headrace.contracts.values.durations import format_time

        return format_time((self.now if at is None else at) * 1_000_000)[:19] + "Z"

    # the others

    def node(self, name: str, gpus: int, **labels: str) -> None:
        meta = {"name": name, "labels": {f"headrace.dev/{key}": text for key, text in labels.items()}}
        able = {GPU: str(gpus), "cpu": "64", "memory": "512Gi"}
        self.create(
            "nodes", {"metadata": meta, "status": {"allocatable": able, "conditions": [{"type": "Ready", "status": "True"}]}}
        )

    def set_ready(self, name: str, ready: bool) -> None:
        (self.down.discard if ready else self.down.add)(name)
        node = self.get("nodes", "", name)
        node["status"]["conditions"] = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
        self._changed("MODIFIED", "nodes", node)

    def pods(self) -> list[dict[str, Any]]:
        return [raw for (kind, _, _), raw in sorted(self.objects.items()) if kind == "pods"]

    def free(self, node: str) -> int:
        """GPUs that no pod on a node takes."""
        taken = [
            read_pod(pod, GPU).needs.gpus
            for pod in self.pods()
            if pod["spec"].get("nodeName") == node and pod["status"]["phase"] not in ("Succeeded", "Failed")
        ]
        return int(self.get("nodes", "", node)["status"]["allocatable"][GPU]) - sum(taken)

    def schedule(self, pod: dict[str, Any]) -> bool:
        """Bind a pod without gates to a node that it allows and that has room."""
        spec = pod["spec"]
        if spec.get("schedulingGates") or spec.get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            return False
        seen = read_pod(pod, GPU)
        names = [seen.target] if seen.target else [raw["metadata"]["name"] for raw in self.list("nodes")]
        for name in names:
            if name not in self.down and self.free(name) >= seen.needs.gpus:
                spec["nodeName"] = name
                placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.time()}
                pod["status"]["conditions"] = [*pod["status"].get("conditions", ()), placed]
                self._changed("MODIFIED", "pods", pod)
                return True
        return False

    def start(self, pod: dict[str, Any]) -> bool:
        node = pod["spec"].get("nodeName")
        if not node or node in self.down or pod["status"]["phase"] != "Pending" or "deletionTimestamp" in pod["metadata"]:
            return False
        pod["status"] |= {"phase": "Running", "containerStatuses": [{"state": {"running": {"startedAt": self.time()}}}]}
        self._changed("MODIFIED", "pods", pod)
        return True

    def finish(self, pod: dict[str, Any], code: int) -> bool:
        if pod["status"]["phase"] != "Running" or pod["spec"]["nodeName"] in self.down:
            return False
        terminated = {"exitCode": code, "finishedAt": self.time()}
        phase = "Failed" if code else "Succeeded"
        pod["status"] |= {"phase": phase, "containerStatuses": [{"state": {"terminated": terminated}}]}
        self._changed("MODIFIED", "pods", pod)
        self._collect(pod["metadata"]["namespace"], pod["metadata"]["name"])
        return True

    def terminate(self, pod: dict[str, Any]) -> bool:
        """End a deleted pod, as its kubelet does when it has left or its grace is over."""
        if "deletionTimestamp" not in pod["metadata"] or not pod["spec"].get("nodeName"):
            return False
        if pod["status"]["phase"] == "Pending" and pod["spec"]["nodeName"] not in self.down:
            pod["status"]["phase"] = "Failed"
            self._changed("MODIFIED", "pods", pod)
            self._collect(pod["metadata"]["namespace"], pod["metadata"]["name"])
            return True
        return self.finish(pod, 143)


def selected(raw: dict[str, Any], selector: str) -> bool:
    labels = raw["metadata"].get("labels", {})
    for part in filter(None, selector.split(",")):
        key, equals, value = part.partition("=")
        if not (labels.get(key) == value if equals else key in labels):
            return False
    return True


def check_update(old: dict[str, Any], new: dict[str, Any]) -> None:
    """What the API server refuses: a pod's specification changes only by gates that come off and an affinity that narrows while gated."""
    before, after = dict(old["spec"]), dict(new["spec"])
    gates, left = before.pop("schedulingGates", []), after.pop("schedulingGates", [])
    if any(gate not in gates for gate in left):
        raise Refusal(422, "spec.schedulingGates: Forbidden: only deletion is allowed")
    narrow, narrower = before.pop("affinity", {}), after.pop("affinity", {})
    if before != after:
        raise Refusal(422, "spec: Forbidden: pod updates may not change fields other than ...")
    if narrow == narrower:
        return
    if not gates:
        raise Refusal(422, "spec.affinity: Forbidden: pod updates may not change it once its gates are off")
    terms = narrow.get("nodeAffinity", {}).get(REQUIRED, {}).get("nodeSelectorTerms", [])
    others = narrower.get("nodeAffinity", {}).get(REQUIRED, {}).get("nodeSelectorTerms", [])
    if terms and not (len(terms) == len(others) and all(map(_narrows, terms, others))):
        raise Refusal(422, "spec.affinity.nodeAffinity: Invalid value: it may only become narrower")
    if {key: value for key, value in narrow.items() if key != "nodeAffinity"} != {
        key: value for key, value in narrower.items() if key != "nodeAffinity"
    }:
        raise Refusal(422, "spec.affinity: Forbidden")


def _narrows(term: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(one in other.get(field, []) for field in ("matchFields", "matchExpressions") for one in term.get(field, []))
