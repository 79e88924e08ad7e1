"""What the nodes of a pool bring, by kind and by owner (R6, R21)."""

from __future__ import annotations

from headrace.contracts.documents import model as d
from headrace.domain.state.supply import recount
from tests.unit.domain.site import Site, pool

DEV, OPS = ("default", "dev"), ("default", "ops")
OWN = {"dedicated": (d.Dedication(selector={"rack": "ops"}, to=d.Owner(policy="default/ops")),)}


def rack(site: Site, name: str, label: str, count: int = 2) -> None:
    """A node whose rack is labelled."""
    site.node(name, count)
    node = site.state.nodes[name]
    node.labels["rack"] = label
    pool = site.state.pools[node.pool]
    pool.index.put(node)
    recount(pool)


def test_nodes_are_counted_by_kind_and_one_that_comes_goes_or_changes_without_the_others():  # R13
    site = Site(pools=(pool(**OWN),))
    for name in ("n1", "n2", "n3"):
        site.node(name, 2)
    site.node("m", 1, model="H100-80GB", mig=True)
    rack(site, "o", "ops")
    hall, seen = site.state.pools["hall"], []
    for count in (2, 4):
        site.node("n3", count)
        assert hall.census is not None
        incremental, hall.census = hall.census.kinds, None
        recount(hall)
        seen.append([(kind.owner, kind.model, kind.whole, kind.families, many) for kind, many in sorted(incremental.items())])
        assert incremental == hall.census.kinds

    others = [("", "H100-80GB", 0, ("H100-80GB",), 1), ("default/ops", "H100", 2, (), 1)]
    assert seen == [[("", "H100", 2, (), 3), *others], [("", "H100", 2, (), 2), ("", "H100", 4, (), 1), *others]]
    assert hall.census is not None
    assert sum(many for _, many in hall.census.of(DEV)) == 4
    assert sum(many for _, many in hall.census.of(OPS)) == 5
