"""How much of what a node says of itself is believed."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.facts.nodes import Device
from headrace.contracts.values.isolation import Ranks
from headrace.domain.model.node_claims import (
    FIRST_IS_APPROVED,
    NOTHING_APPROVED,
    Approval,
    NodeClaimsState,
    approval_of,
    as_believed,
    believed,
    beyond,
    widened,
    with_unfit,
)


def devices(count):
    return tuple(Device(device=f"g{number}", model="H100-80GB", memory=81_920) for number in range(count))


CLAIMS = NodeClaimsState({"address": "10.0.0.7", "site": "hq", "rack": "r7"}, devices(3), "kernel", Ranks(5, 3, 6, 0, 5, 3, -1))


def test_a_node_without_an_approval_is_believed():
    assert believed(CLAIMS, None) is CLAIMS
    assert believed(CLAIMS, FIRST_IS_APPROVED) is CLAIMS
    assert (beyond(CLAIMS, None), beyond(CLAIMS, FIRST_IS_APPROVED)) == ((), ())


@pytest.mark.parametrize(
    ("approval", "is_believed", "is_not"),
    [
        (
            Approval({"site": "hq"}, 2, "driver"),
            NodeClaimsState({"address": "10.0.0.7", "site": "hq"}, devices(2), "driver", Ranks(4, 3, 4, 0, 4, 3, -1)),
            ("rack=r7", "3 GPUs (2 approved)", "isolation hardware (driver approved)"),
        ),
        (
            NOTHING_APPROVED,
            NodeClaimsState({"address": "10.0.0.7"}, (), "none", Ranks(0, 0, 0, 0, 0, 0, -1)),
            ("rack=r7", "site=hq", "3 GPUs (0 approved)", "isolation hardware (none approved)"),
        ),
        (
            Approval({"site": "west", "rack": "*"}, 8, "hardware"),
            NodeClaimsState({"address": "10.0.0.7", "rack": "r7"}, devices(3), "kernel", CLAIMS.levels),
            ("site=hq",),
        ),
    ],
)
def test_a_node_is_believed_as_far_as_it_is_approved_and_the_rest_is_named(approval, is_believed, is_not):
    assert believed(CLAIMS, approval) == is_believed
    assert beyond(CLAIMS, approval) == is_not


def test_of_very_many_labels_some_are_named_and_the_rest_is_counted():
    claims = CLAIMS._replace(
        labels={f"l{number:03}": "x" * 100 for number in range(900)}, devices=(), levels=Ranks(), isolation="none"
    )
    assert beyond(claims, NOTHING_APPROVED) == (*(f"l{number:03}={'x' * 75}" for number in range(10)), "890 labels more")


def test_what_is_approved_of_a_node_covers_all_that_it_says():
    approval = approval_of(CLAIMS)
    assert approval == Approval({"site": "hq", "rack": "r7"}, 3, "hardware")
    assert (believed(CLAIMS, approval), beyond(CLAIMS, approval)) == (CLAIMS, ())


def test_approving_what_a_node_says_takes_nothing_from_what_was_approved_before():
    assert widened(Approval({"site": "*", "zone": "a"}, 8, "driver"), CLAIMS) == Approval(
        {"site": "*", "zone": "a", "rack": "r7"}, 8, "hardware"
    )
    assert widened(NOTHING_APPROVED, CLAIMS) == approval_of(CLAIMS)


def test_a_registration_is_told_as_it_is_believed():
    fact = f.NodeRegisteredV1(
        node="n1",
        labels=CLAIMS.labels,
        devices=devices(3),
        cpu=1,
        memory=2,
        isolation="kernel",
        levels={"slice": "hardware"},
        at=3,
    )
    assert as_believed(fact, None) is fact
    assert as_believed(fact, Approval({"site": "hq"}, 1, "driver")) == f.NodeRegisteredV1(
        node="n1",
        labels={"address": "10.0.0.7", "site": "hq"},
        devices=devices(1),
        cpu=1,
        memory=2,
        isolation="driver",
        levels={"slice": "driver"},
        at=3,
    )


def test_a_device_that_is_drained_is_unfit_in_what_the_node_says():
    drained = with_unfit(CLAIMS, "g2", "XID 79")
    assert [device.unfit for device in drained.devices] == ["", "", "XID 79"]
    assert with_unfit(drained, "g2", "") == CLAIMS
