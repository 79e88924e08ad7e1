"""Random histories of the other generators, moved into racks: pools have a topology, and gangs require or prefer a level of it (R40)."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.contracts.documents import model as d
from headrace.simulate.scenario import Moment, Nodes, Scenario
from tests.properties.crowded import crowded
from tests.properties.histories import Chance, scenarios

LEVELS = ("block", "rack")


@st.composite
def in_racks(draw: Callable[[st.SearchStrategy], object]) -> Scenario:
    """Two to five times the nodes, most of them in a rack of a block; names of racks recur in other blocks."""
    base, chance = draw(st.one_of(scenarios(), crowded())), Chance(draw)
    nodes = [one for row in base.nodes for one in _spread(chance, row)]
    kinds = {profile.name: _together(chance) for profile in base.documents.profiles}
    documents = _documents(base.documents, kinds)
    timeline = tuple(_moment(moment, kinds) for moment in base.timeline)
    return replace(base, documents=documents, nodes=tuple(nodes), timeline=timeline)


def _spread(chance: Chance, row: Nodes) -> list[Nodes]:
    """The nodes of a row, with their names, and some more."""
    names = [row.name] if row.count == 1 else [f"{row.name}-{place}" for place in range(1, row.count + 1)]
    names += [f"{row.name}-more-{place}" for place in range(chance.number(1, 3))]
    return [replace(row, name=name, count=1, labels=row.labels | _stands(chance)) for name in names]


def _stands(chance: Chance) -> dict[str, str]:
    match chance.number(0, 9):
        case 0:
            return {}
        case 1:
            return {"rack": "r1"}
    return {"block": chance.among(["b1", "b1", "b2"]), "rack": chance.among(["r1", "r2"])}


def _together(chance: Chance) -> dict[str, object]:
    topology = chance.among(
        [
            None,
            d.Topology(require="rack"),
            d.Topology(require="rack"),
            d.Topology(prefer="rack"),
            d.Topology(require="block", prefer="rack"),
            d.Topology(require="block"),
        ]
    )
    return {"topology": topology, "replicas": chance.number(2, 3)} if topology is not None else {}


def _documents(documents: d.Documents, kinds: dict[str, dict[str, object]]) -> d.Documents:
    pools = tuple(replace(pool, topology=LEVELS) for pool in documents.pools)
    profiles = tuple(replace(profile, **kinds.get(profile.name, {})) for profile in documents.profiles)
    return replace(documents, pools=pools, profiles=profiles)


def _moment(moment: Moment, kinds: dict[str, dict[str, object]]) -> Moment:
    return moment if moment.apply is None else replace(moment, apply=_documents(moment.apply, kinds))
