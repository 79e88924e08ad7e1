"""Every scenario file beside this one holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.contracts.documents.yaml_text import read_tree
from headrace.simulate.expectations import differences
from headrace.simulate.scenario import read_scenario
from headrace.simulate.world import World

FILES = sorted(Path(__file__).parent.glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_the_scenario_holds(path: Path) -> None:
    world = World(read_scenario(read_tree(path.read_text(encoding="utf-8"))))

    moments = [list(differences(world, at, expect)) for at, expect in world.run()]

    assert moments, "a scenario that expects nothing shows nothing"
    assert [line for moment in moments for line in moment] == []
