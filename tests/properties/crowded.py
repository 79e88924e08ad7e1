"""Random histories of small pools that policies share out, where some policy always has more than is reserved for it.

Nothing fails and nothing is edited: jobs come, and have to make room for each other (R15-R19, R23-R27).
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.simulate.scenario import Expect, Moment, Nodes, Scenario, Submit
from tests.properties.histories import MOMENTS, QUIET_AT, Chance, pinned


@st.composite
def crowded(draw: Callable[[st.SearchStrategy[int]], int]) -> Scenario:
    """Small pools that policies have divided among themselves, policy-wide and by pool, and more jobs than there is room for."""
    chance = Chance(draw)
    names = ["a", "b"][: chance.number(1, 2)]
    nodes = [
        Nodes(name=name, count=chance.number(1, 2), labels={"site": name}, gpus=chance.number(2, 4), cpus=4) for name in names
    ]
    pools = tuple(
        d.Pool(
            name=name,
            selector={"site": name},
            capacity=chance.among([{}, {CPU: 4 * CPU_UNITS}]),
            backfill_for=chance.among([0, MINUTE, HOUR]),
            keep_for=chance.among([0, MINUTE, HOUR]),
        )
        for name in names
    )
    links = tuple(
        d.Profile(
            name=f"p{count}",
            request={GPU: count * GPU_UNITS, CPU: chance.number(0, 2) * CPU_UNITS},
            pools=tuple(chance.order(names)[: chance.number(1, len(names))]),
            reclaim_before_spill=chance.coin(),
        )
        for count in (1, 2, 4)
    )
    law, shares = shared_out(chance, nodes, links)
    moments = [
        Moment(at=chance.among(MOMENTS), submit=asked(chance, place, law, links)) for place in range(chance.number(5, 11))
    ]
    documents = d.Documents(
        tenants=(d.Tenant(name="default", shares=shares),) if shares else (), pools=pools, profiles=links, policies=law
    )
    return Scenario(documents=documents, nodes=tuple(nodes), timeline=(*moments, Moment(at=QUIET_AT, expect=Expect())))


def shared_out(
    chance: Chance, nodes: list[Nodes], links: tuple[d.Profile, ...]
) -> tuple[tuple[d.Policy, ...], tuple[d.Share, ...]]:
    """Three policies that share out every pool, and perhaps a limit on what their tenant may hold of each."""
    left, law = {row.name: row.count * row.gpus for row in nodes}, []
    for number in range(3):
        blocks = {}
        for name, rest in left.items():
            part = rest if number == 2 else chance.number(0, rest)
            left[name] -= part
            blocks[name] = {GPU: part * GPU_UNITS, CPU: chance.number(0, 4) * CPU_UNITS}
        whole = {key: sum(block[key] for block in blocks.values()) for key in (GPU, CPU)}
        form = chance.among(["wide", "per pool", "pinned"])
        terms = d.PreemptionTerms(preempt_lower_priority=chance.coin(), callback_grace=60 * SECOND, term_grace=30 * SECOND)
        law.append(
            d.Policy(
                name=f"q{number}",
                profiles=tuple(d.PolicyProfile(name=link.name) for link in links),
                priority=chance.number(0, 1),
                reservation=None if form == "per pool" else whole,
                limit=chance.among([{}, {}, {GPU: whole[GPU] + chance.number(0, 2) * GPU_UNITS}]),
                per_pool={} if form == "wide" else pinned(blocks, {}),
                preemption=terms,
            )
        )
    shares = [
        d.Share(
            pool=row.name,
            reservation={GPU: row.count * row.gpus * GPU_UNITS, CPU: 4 * CPU_UNITS},
            limit={GPU: (row.count * row.gpus - chance.number(0, 1)) * GPU_UNITS},
        )
        for row in nodes
    ]
    return tuple(law), tuple(shares) if chance.coin() else ()


def asked(chance: Chance, place: int, law: tuple[d.Policy, ...], links: tuple[d.Profile, ...]) -> Submit:
    return Submit(
        name=f"j{place}",
        queue=f"{chance.among(law).name}/{chance.among(links).name}",
        count=chance.number(1, 3),
        duration=chance.among([None, None, None, 100 * SECOND]),
        preemptible=chance.among([True, True, False]),
        abort_takes=chance.among([0, 45 * SECOND]),
    )
