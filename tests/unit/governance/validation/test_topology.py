"""R40: levels that profiles name exist in their pools."""

from __future__ import annotations

import pytest

from headrace.contracts.facts.levels import PROVISIONING
from tests.unit.governance.validation.sentences import NOT_YET

WAY_OUT = "name one of its levels, or add this one there"
POOLS = (
    "{name: west, selector: {site: west}, topology: [block, rack]}, "
    "{name: east, selector: {site: east}, topology: [rack]}, {name: south, selector: {site: south}}"
)


@pytest.fixture(autouse=True)
def reads_topology(installation):
    installation.state.terms.level = PROVISIONING


def planned(installation, topology: str, pools: str):
    profile = f"{{name: gang, request: {{gpu: 1}}, replicas: 2, pools: {pools}, topology: {topology}}}"
    return installation.plan(f"{{pools: [{POOLS}], profiles: [{profile}]}}")


@pytest.mark.parametrize(
    ("topology", "pools", "errors"),
    [
        ("{require: rack}", "[west, east]", ()),
        ("{require: block, prefer: rack}", "[west]", ()),
        (
            "{require: block}",
            "[west, east]",
            (f"profiles[0].topology.require: pool east has no topology level block; its topology is rack: {WAY_OUT}",),
        ),
        (
            "{prefer: rack}",
            "[south]",
            (f"profiles[0].topology.prefer: pool south has no topology level rack; it has no topology: {WAY_OUT}",),
        ),
        (
            "{require: rack, prefer: block}",
            "[west]",
            ("profiles[0].topology.prefer: block is wider than rack in pool west; prefer a narrower level, or leave it out",),
        ),
    ],
)
def test_a_level_that_a_pool_lacks_is_refused(installation, topology, pools, errors):
    assert planned(installation, topology, pools).errors == errors


def test_a_pool_keeps_the_levels_that_profiles_name(installation):
    installation.write(
        f"{{pools: [{POOLS}], profiles: [{{name: gang, request: {{gpu: 1}}, replicas: 2, pools: [west], topology: {{require: block}}}}]}}"
    )
    assert installation.plan("pools: [{name: west, selector: {site: west}, topology: [rack]}]").errors == (
        f"profile gang: topology.require: pool west has no topology level block; its topology is rack: {WAY_OUT}",
    )


def test_labels_that_no_node_has_yet_are_a_warning(installation):
    installation.write("pools: [{name: west, selector: {site: west}}]")
    installation.node("w1", site="west", block="b1")
    assert installation.plan("pools: [{name: west, selector: {site: west}, topology: [block, rack]}]").warnings == (
        "pools[0].topology[1]: NO_NODES_YET: no node of pool west has the labels block, rack yet, so it has no domain of this level",
    )


def test_older_releases_cannot_read_topology(installation):
    installation.state.terms.level = PROVISIONING - 1
    assert planned(installation, "{require: rack}", "[east]").errors == (
        f"pools[0].topology: {NOT_YET}",
        f"pools[1].topology: {NOT_YET}",
        f"profiles[0].topology: {NOT_YET}",
    )
