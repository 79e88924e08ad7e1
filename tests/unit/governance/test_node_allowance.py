"""What a node may write, and when it is excluded."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.messages.queries import NodeRequest
from headrace.contracts.values.durations import SECOND
from headrace.governance.node_allowance import Allowances, excluding
from headrace.governance.nodes import cordoning

MIB = 1024 * 1024
NOW = 1_800_000_000 * SECOND
VOIDS = "more than 10 records within 10 minutes that are void or larger than 128 KiB"
BYTES = "more than 16 MiB at once and 128 KiB a second after that"


def allowance_results(allowances, *records):
    """What is said of each of (seconds, bytes, is void)."""
    return [allowances.record("gpu01", size, NOW + round(at * SECOND), is_void=void) for at, size, void in records]


def test_ten_void_records_are_forgiven_and_one_more_is_not():
    allowances = Allowances()
    assert allowance_results(allowances, *[(number, 10, True) for number in range(11)]) == [""] * 10 + [VOIDS]
    allowances.forget("gpu01")
    assert allowance_results(allowances, (11, 10, True)) == [""]


def test_a_void_record_now_and_then_is_forgiven_for_ever():
    assert allowance_results(Allowances(), *[(61 * number, 10, True) for number in range(200)]) == [""] * 200


def test_a_burst_of_16_mib_is_taken_and_after_that_128_kib_a_second():
    allowances = Allowances()
    assert allowance_results(allowances, *[(0, MIB // 8, False)] * 129) == [""] * 128 + [BYTES]
    assert allowance_results(Allowances(), *[(number, 128 * 1024, False) for number in range(1_000)]) == [""] * 1_000
    assert BYTES in allowance_results(Allowances(), *[(number / 2, 80 * 1024, False) for number in range(2_000)])


def test_each_node_has_its_own_allowance():
    allowances = Allowances()
    assert allowances.record("gpu01", 16 * MIB, NOW, is_void=False) == ""
    assert allowances.record("gpu02", 16 * MIB, NOW, is_void=False) == ""
    assert allowances.record("gpu02", MIB, NOW, is_void=False) == BYTES
    assert allowances.record("gpu01", MIB, NOW + 16 * SECOND, is_void=False) == ""


def test_records_that_no_executor_makes_so_large_count_as_void_ones():
    assert allowance_results(Allowances(), *[(number, 128 * 1024 + 1, False) for number in range(11)]) == [""] * 10 + [VOIDS]


@pytest.fixture
def hall(site):
    """An installation at level 2 with a node that has a token, and one, `w1`, that has none; both are approved."""
    site.append_facts(f.InstallationLevelV1(level=2, release="0.2.0"))
    site.append_facts(f.TokenCreatedV1(author="a.b", token="t1", role="node", tenant="", handle="gpu01", expires_at=2 * NOW))
    for node in ("gpu01", "w1"):
        site.append_facts(f.NodeApprovedV1(author="a.b", node=node, labels={"site": "west"}, gpus=8, isolation="none"))
    site.node("gpu01", site="west")
    return site


def test_only_a_node_with_a_token_is_excluded_and_only_once(hall):
    fact = f.NodeExcludedV1(node="gpu01", reason="it floods")
    assert excluding("gpu01", "it floods")(hall.state, 0).facts == (fact,)
    assert excluding("w1", "it floods")(hall.state, 0).facts == ()
    hall.append_facts(fact)
    assert excluding("gpu01", "it floods")(hall.state, 0).facts == ()
    node = hall.state.nodes["gpu01"]
    assert (node.cordoned, node.grantable, hall.state.excluded) == ("it floods", False, {"gpu01": "it floods"})


def test_a_node_whose_tokens_were_revoked_cannot_be_refused_by_them(hall):
    hall.append_facts(f.TokenRevokedV1(author="a.b", token="t1"))
    assert excluding("gpu01", "it floods")(hall.state, 0).facts == ()


@pytest.mark.parametrize("node", ["gpu01", "never-came"])
def test_an_operator_lets_it_in_again_whether_or_not_it_has_registered(hall, node):
    hall.append_facts(f.NodeExcludedV1(node=node, reason="it floods"))
    decision = cordoning(NodeRequest(node=node), "default.admin", cordon=False)(hall.state, 0)
    assert decision.facts == (f.NodeUncordonedV1(author="default.admin", node=node),)
    hall.append_facts(*decision.facts)
    assert hall.state.excluded == {}
    if node in hall.state.nodes:
        assert hall.state.nodes[node].grantable
