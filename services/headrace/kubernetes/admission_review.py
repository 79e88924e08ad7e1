"""What the webhook answers the API server about pods and Jobs: gates for pods of queues, and who may write the bridge's labels. Pure.

The label of a Job is copied to the pods that it makes. A pod gets its gate when it is made; later only the bridge takes it off, and only
the bridge writes the labels by which it knows the pod.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.kubernetes.objects import BRIDGES_OWN, FINALIZER, GATE, GROUP, GROUP_SIZE, QUEUE, wrong_labels

if TYPE_CHECKING:
    from headrace.kubernetes.objects import Json

Patch = list[dict[str, Any]]


class BadReview(Exception):
    """The request is not an AdmissionReview."""


def review(body: bytes, bridge: str) -> dict[str, Any]:
    """The answer to an AdmissionReview. `bridge`: the user as whom the bridge calls the API server. Raises BadReview."""
    try:
        asked = msgspec.json.decode(body)
        request = asked["request"]
        uid, operation, kind = request["uid"], request["operation"], request["kind"]["kind"]
        new = request["object"] or {}
        old = request.get("oldObject") or {}
        user = (request.get("userInfo") or {}).get("username", "")
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise BadReview(f"not an AdmissionReview: {error}") from None
    objection, patch = "", list[dict[str, Any]]()
    if kind == "Job" and operation == "CREATE":
        patch = of_job(new)
    elif kind == "Pod" and operation == "CREATE":
        objection, patch = of_new_pod(new)
    elif kind == "Pod" and operation == "UPDATE" and user != bridge:
        objection = of_changed_pod(old, new)
    response: dict[str, Any] = {"uid": uid, "allowed": not objection}
    if objection:
        response["status"] = {"code": 403, "reason": "Forbidden", "message": objection}
    elif patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(patch)).decode()}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


def of_job(job: Json) -> Patch:
    """The Job's labels of queue and group, on the pods that it makes, where these do not have their own."""
    labels = (job.get("metadata") or {}).get("labels") or {}
    template = (job.get("spec") or {}).get("template") or {}
    meta = template.get("metadata") or {}
    had = meta.get("labels") or {}
    added = {key: labels[key] for key in (QUEUE, GROUP, GROUP_SIZE) if key in labels and key not in had}
    if not added:
        return []
    return [{"op": "add", "path": "/spec/template/metadata", "value": {**meta, "labels": {**had, **added}}}]


def of_new_pod(pod: Json) -> tuple[str, Patch]:
    """An objection to a new pod of a queue, and the patch that gates it."""
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    labels = meta.get("labels") or {}
    if QUEUE not in labels:
        return "", []
    if wrong := wrong_labels(labels):
        return wrong, []
    if spec.get("nodeName"):
        return f"spec.nodeName: a pod with the label {QUEUE} is placed by the scheduler", []
    left = {key: text for key, text in labels.items() if key not in BRIDGES_OWN}
    gates = spec.get("schedulingGates") or []
    patch: Patch = []
    if left != labels:
        patch.append({"op": "replace", "path": "/metadata/labels", "value": left})
    if FINALIZER in (meta.get("finalizers") or ()):
        patch.append(
            {"op": "replace", "path": "/metadata/finalizers", "value": [one for one in meta["finalizers"] if one != FINALIZER]}
        )
    if not any(gate.get("name") == GATE for gate in gates):
        patch.append({"op": "add", "path": "/spec/schedulingGates", "value": [*gates, {"name": GATE}]})
    return "", patch


def of_changed_pod(old: Json, new: Json) -> str:
    """Why a user other than the bridge may not change a pod so; empty if it may be."""
    before, after = _labels(old), _labels(new)
    if before.get(QUEUE) != after.get(QUEUE):
        return f"label {QUEUE}: it is given when the pod is made, and stays"
    if QUEUE not in after:
        return ""
    for key in (*BRIDGES_OWN, GROUP, GROUP_SIZE):
        if before.get(key) != after.get(key):
            return f"label {key}: only the bridge of Headrace writes it"
    if _is_gated(old) and not _is_gated(new):
        return f"spec.schedulingGates: only the bridge of Headrace takes {GATE} off"
    return ""


def _labels(pod: Json) -> Json:
    return (pod.get("metadata") or {}).get("labels") or {}


def _is_gated(pod: Json) -> bool:
    return any(gate.get("name") == GATE for gate in (pod.get("spec") or {}).get("schedulingGates") or ())
