"""What is sent to the API server."""

from __future__ import annotations

from headrace.kubernetes.patches import condition, event, release, terms, ungating
from headrace.kubernetes.view import SetCondition, Ungate
from tests.unit.kubernetes.seen import NOW, pod

NAMED = {"key": "metadata.name", "operator": "In", "values": ["n1"]}


def test_the_gate_goes_with_affinity_lease_and_finalizer_in_one_patch_of_this_version():
    assert ungating(Ungate(pod(), "n1", 2, 40)) == {
        "metadata": {
            "uid": "uid-p",
            "resourceVersion": "7",
            "labels": {"headrace.dev/lease": "2.40"},
            "finalizers": ["headrace.dev/lease"],
        },
        "spec": {
            "schedulingGates": [],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [NAMED]}]}
                }
            },
        },
    }


def test_every_term_that_a_user_wrote_becomes_narrower():
    mine = [{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}, {"matchFields": [{"key": "x"}]}]
    spec = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": mine}}}}
    assert terms(spec, "n1") == [{**mine[0], "matchFields": [NAMED]}, {"matchFields": [{"key": "x"}, NAMED]}]


def test_finalizers_of_others_stay():
    mine = pod(gated=False)
    mine.raw["metadata"]["finalizers"] = ["a", "headrace.dev/lease", "b"]
    assert release(mine)["metadata"]["finalizers"] == ["a", "b"]


def test_the_same_message_is_one_event():
    first, again, other = (SetCondition(pod(), "False", "PENDING", text) for text in ("x", "x", "y"))
    names = [event(step, NOW + shift)["metadata"]["name"] for shift, step in enumerate((first, again, other))]
    assert names[0] == names[1] != names[2]


def test_conditions_of_others_stay():
    step = SetCondition(pod(gated=False, placed="2026-01-01T00:00:10Z"), "False", "PENDING", "x" * 2_000)
    patch = condition(step, NOW)["status"]["conditions"]
    assert [one["type"] for one in patch] == ["PodScheduled", "headrace.dev/admitted"]
    assert (len(patch[1]["message"]), patch[1]["lastTransitionTime"]) == (900, "2026-01-01T00:01:40Z")
