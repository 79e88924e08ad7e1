"""How pods and nodes are read from what users and the API server write."""

from __future__ import annotations

from fractions import Fraction

import pytest

from headrace.kubernetes.objects import Needs, foreign_gpus, needs_of, quantity, read_node, read_pod

GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2", 2),
        ("500m", Fraction(1, 2)),
        ("1.5Gi", 3 * 512 * 1024**2),
        ("128974848", 128974848),
        ("129e6", 129_000_000),
        ("1k", 1000),
        (3, 3),
    ],
)
def test_quantities_are_exact(text, expected):
    assert quantity(text) == expected


@pytest.mark.parametrize("text", ["", "-1", "1 Gi", "Gi", "1Q", "0x1", "1e", None])
def test_a_malformed_quantity_is_an_error(text):
    with pytest.raises(ValueError, match="invalid quantity"):
        quantity(text)


def container(**requests):
    return {"resources": {"requests": {key.replace("gpu", GPU): text for key, text in requests.items()}}}


def test_what_a_pod_needs_is_what_the_scheduler_counts():
    spec = {
        "containers": [container(gpu="1", cpu="500m", memory="1Gi"), container(cpu="1", memory="100")],
        "initContainers": [container(cpu="4"), {**container(gpu="1"), "restartPolicy": "Always"}],
        "overhead": {"cpu": "250m"},
    }
    assert needs_of(spec, GPU) == Needs(2, 4_250, 1_025)


def test_a_limit_without_a_request_counts_as_the_request():
    assert needs_of({"containers": [{"resources": {"limits": {GPU: "2"}}}]}, GPU) == Needs(2, 0, 0)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"containers": [container(gpu="0.5")]}, "nvidia.com/gpu: request whole GPUs"),
        ({"containers": [container(gpu="many")]}, "invalid quantity 'many'"),
        (
            {"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]},
            "nvidia.com/mig-1g.10gb: parts of GPUs are not granted to pods; request whole GPUs by nvidia.com/gpu",
        ),
        (
            {"resourceClaims": [{"name": "x"}]},
            "spec.resourceClaims: claims of devices are not granted by Headrace; request whole GPUs by nvidia.com/gpu",
        ),
    ],
)
def test_what_cannot_be_granted_is_refused_with_the_reason(spec, message):
    assert read_pod({"metadata": {"labels": {"headrace.dev/queue": "a.b"}}, "spec": spec}, GPU).refused == message


def test_a_pod_without_anything_is_read():
    assert read_pod({}, GPU).refused == "label headrace.dev/queue: invalid queue '': write POLICY.PROFILE, such as ai-dev.half"


def test_dots_in_the_name_of_a_node_become_hyphens_and_a_name_that_is_too_long_is_skipped():
    node = read_node({"metadata": {"name": "ip-10-0-0-1.example"}}, GPU)
    assert node is not None
    assert (node.name, node.called, node.ready, node.gpus) == ("ip-10-0-0-1-example", "ip-10-0-0-1.example", False, 0)
    assert read_node({"metadata": {"name": "x" * 64}}, GPU) is None


def test_gpus_of_others_count_until_their_pod_has_ended():
    raw = {"spec": {"nodeName": "n1", "containers": [container(gpu="2")]}, "status": {"phase": "Running"}}
    assert foreign_gpus(raw, GPU) == ("n1", 2)
    assert foreign_gpus({**raw, "status": {"phase": "Failed"}}, GPU) == ("n1", 0)
