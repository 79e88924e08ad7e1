"""What the webhook answers about pods and Jobs."""

from __future__ import annotations

import base64
import json

import pytest

from headrace.kubernetes.admission_review import BadReview, review

BRIDGE = "system:serviceaccount:gpus:headrace-bridge"
GATE = {"name": "headrace.dev/admission"}


def asked(kind, operation, new, old=None, user="alice"):
    request = {
        "uid": "u1",
        "operation": operation,
        "kind": {"group": "", "version": "v1", "kind": kind},
        "object": new,
        "oldObject": old,
        "userInfo": {"username": user},
    }
    answer = review(json.dumps({"request": request}).encode(), BRIDGE)
    assert (answer["kind"], answer["response"]["uid"]) == ("AdmissionReview", "u1")
    response = answer["response"]
    return (
        response["allowed"],
        response.get("status", {}).get("message", ""),
        json.loads(base64.b64decode(response.get("patch", base64.b64encode(b"[]")))),
    )


def pod(gates=(), finalizers=(), node="", **labels):
    named = {f"headrace.dev/{key.replace('_', '-')}": text for key, text in labels.items()}
    spec = {"schedulingGates": list(gates)} | ({"nodeName": node} if node else {})
    return {"metadata": {"name": "p", "labels": named, "finalizers": list(finalizers)}, "spec": spec}


def test_a_new_pod_of_a_queue_gets_its_gate_beside_those_it_has():
    gate = {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": "other"}, GATE]}
    assert asked("Pod", "CREATE", pod([{"name": "other"}], queue="a.b")) == (True, "", [gate])
    assert asked("Pod", "CREATE", pod([GATE], queue="a.b")) == (True, "", [])
    assert asked("Pod", "CREATE", pod()) == (True, "", [])


def test_a_new_pod_may_not_bring_what_only_the_bridge_writes():
    allowed, _, patch = asked(
        "Pod", "CREATE", pod([GATE], ["headrace.dev/lease", "x"], queue="a.b", job="j", lease="1.2", rank="0")
    )
    assert (allowed, patch) == (
        True,
        [
            {"op": "replace", "path": "/metadata/labels", "value": {"headrace.dev/queue": "a.b"}},
            {"op": "replace", "path": "/metadata/finalizers", "value": ["x"]},
        ],
    )


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (pod(queue="half"), "label headrace.dev/queue: invalid queue 'half': write POLICY.PROFILE, such as ai-dev.half"),
        (pod(queue="a.b", node="n1"), "spec.nodeName: a pod with the label headrace.dev/queue is placed by the scheduler"),
        (
            pod(queue="a.b", group="g"),
            "labels headrace.dev/group and headrace.dev/group-size belong together; a pod of a group has both",
        ),
        (pod(queue="a.b", group="g", group_size="0"), "label headrace.dev/group-size: invalid size '0': use 1 to 1000"),
    ],
)
def test_a_new_pod_that_can_never_be_granted_anything_is_refused(new, message):
    assert asked("Pod", "CREATE", new) == (False, message, [])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (pod(), pod(queue="a.b"), "label headrace.dev/queue: it is given when the pod is made, and stays"),
        (pod([GATE], queue="a.b"), pod([GATE]), "label headrace.dev/queue: it is given when the pod is made, and stays"),
        (
            pod([GATE], queue="a.b"),
            pod([GATE], queue="a.b", lease="1.2"),
            "label headrace.dev/lease: only the bridge of Headrace writes it",
        ),
        (
            pod([GATE], queue="a.b"),
            pod(queue="a.b"),
            "spec.schedulingGates: only the bridge of Headrace takes headrace.dev/admission off",
        ),
    ],
)
def test_later_only_the_bridge_changes_what_is_its_own(old, new, message):
    assert asked("Pod", "UPDATE", new, old) == (False, message, [])
    assert asked("Pod", "UPDATE", new, old, BRIDGE) == (True, "", [])


def test_other_changes_are_not_its_business():
    old, new = pod([GATE], queue="a.b"), pod([GATE], ["batch.kubernetes.io/job-tracking"], queue="a.b")
    assert asked("Pod", "UPDATE", new, old) == (True, "", [])


def test_a_job_gives_its_labels_to_its_pods():
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {}}
    job = {"metadata": {"labels": {"headrace.dev/queue": "a.b", "team": "y"}}, "spec": {"template": template}}
    value = {"labels": {"app": "x", "headrace.dev/queue": "a.b"}}
    assert asked("Job", "CREATE", job) == (True, "", [{"op": "add", "path": "/spec/template/metadata", "value": value}])
    assert asked("Job", "CREATE", {"metadata": {}, "spec": {"template": template}}) == (True, "", [])


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"request": {}}', b'{"request": {"uid": "u", "operation": "CREATE", "kind": 3}}']
)
def test_a_request_of_another_form_is_not_a_review(body):
    with pytest.raises(BadReview):
        review(body, BRIDGE)
