"""Random histories, as scenarios: small supplies, honourable policies, and everything that can happen to jobs and nodes.

Reservations are handed out from what each pool really has, so that they can be kept together (R8); limits lie above them. All that is
left to chance is drawn by Hypothesis, which shrinks what fails to the few lines that matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TypeVar

from hypothesis import strategies as st

from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, JOB
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.simulate.scenario import Delete, Expect, Moment, Nodes, Scenario, Submit
from headrace.simulate.virtual_system import START

QUARTER = GPU_UNITS // 4
QUIET_AT = 24 * HOUR
"""By then every history has come to rest: jobs that end have ended, however often they were preempted and protected (R29)."""

Thing = TypeVar("Thing")

SIZES = (QUARTER, 2 * QUARTER, GPU_UNITS, GPU_UNITS, GPU_UNITS, 2 * GPU_UNITS, 3 * GPU_UNITS)
SLICES = ("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
MOMENTS = tuple(second * SECOND for second in range(300))
DURATIONS = (*[None] * 20, *(second * SECOND for second in range(10, 500, 15)))
GRACES = (0, 0, 5 * SECOND, 45 * SECOND, 200 * SECOND)


@cache
def below(count: int) -> st.SearchStrategy[int]:
    """Any of these numbers alike: `integers` would prefer the ends. Made once: that costs more than to draw from it."""
    return st.sampled_from(range(count))


class Chance:
    """What is left to chance."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw

    def number(self, least: int, most: int) -> int:
        """Any from `least` to `most`."""
        return least + self._draw(below(most - least + 1))

    def among(self, things: Sequence[Thing]) -> Thing:
        """One of them; who is named twice comes twice as often."""
        return things[self._draw(below(len(things)))]

    def coin(self) -> bool:
        """Yes or no."""
        return self.among((False, True))

    def order(self, things: Sequence[Thing]) -> list[Thing]:
        """All of them, in any order."""
        left = list(things)
        return [left.pop(self._draw(below(len(left)))) for _ in things]


def terms(chance: Chance) -> d.PreemptionTerms:
    return d.PreemptionTerms(
        on_node_lost=chance.among(["requeue", "wait"]),
        on_preempt=chance.among(["requeue", "requeue", "requeue_last", "cancel", "suspend", "suspend"]),
        suspend_max=chance.among([MINUTE, 4 * HOUR]),
        callback_grace=chance.among([0, 60 * SECOND]),
        term_grace=30 * SECOND,
        min_runtime=chance.among([0, 0, 40 * SECOND, 5 * MINUTE]),
        preempt_lower_priority=chance.coin(),
        max_preemptions=chance.among([None, None, 0, 2]),
        assume_checkpoint_every=chance.among([None, None, MINUTE]),
    )


def calendars(chance: Chance) -> dict[str, object]:
    """Windows and budgets (R33). Histories begin at midnight of a Thursday, and neither a week nor a month ends before they do."""
    windows = chance.among(
        [
            *[()] * 6,
            (d.Window(days=("thu",), opens=0, closes=3, on_close="preempt"),),
            (d.Window(days=("thu",), opens=2, closes=4), d.Window(days=("thu",), opens=7, closes=8, on_close="preempt")),
        ]
    )
    hours, per, then = chance.number(0, 2), chance.among(["week", "month"]), chance.among(["wait", "borrow"])
    budget = d.Budget(key=GPU, hours=hours, per=per, then=then)
    return {"windows": windows, "budgets": chance.among([(), (), (), (budget,)])}


def among_users(chance: Chance) -> dict[str, object]:
    """Mostly nothing; or the policy is fair among its users (R15), or limits what each of them holds (R7)."""
    limits = [{GPU: chance.number(1, 8) * QUARTER}, {JOB: chance.number(1, 3)}, {GPU: 3 * GPU_UNITS, JOB: 2}]
    return {
        "fair_among": chance.among([None, None, "users"]),
        "per_user": chance.among([None, None, None, d.PerUser(limit=chance.among(limits))]),
    }


def dedications(chance: Chance, site: str, nodes: list[Nodes]) -> dict[str, object]:
    """Mostly none (R21); or the whole pool, or one more node of it, is a policy's or a tenant's."""
    owner = chance.among([d.Owner(policy="default/q0"), d.Owner(policy="acme/q0"), d.Owner(tenant="acme")])
    match chance.number(0, 9):
        case 0:
            return {"dedicated_to": owner}
        case 1 | 2:
            nodes.append(Nodes(name=f"{site}-own", labels={"site": site, "for": "owner"}, gpus=chance.number(1, 2)))
            return {"dedicated": (d.Dedication(selector={"for": "owner"}, to=owner),)}
    return {}


def growth(chance: Chance) -> dict[str, object]:
    """Mostly none (R38); or nodes may be asked for, which come if it so happens."""
    node = d.BurstNode(gpus=chance.number(1, 4), gpu_model="H100-80GB", cpus=64, memory=1 << 20)
    burst = d.Burst(
        provider="local",
        node=node,
        max_nodes=chance.number(1, 6),
        boot=chance.among([10 * SECOND, 2 * MINUTE]),
        idle=10 * SECOND,
    )
    return {"burst": chance.among([None, None, None, None, burst])}


def maintenance(chance: Chance) -> dict[str, object]:
    """Mostly none (R41); or a window for one time, or of every week: histories begin at midnight of a Thursday."""
    notice = chance.among([None, MINUTE])
    begins = START + chance.number(1, 6) * MINUTE
    once = d.MaintenanceWindow(begins=begins, ends=begins + chance.number(1, 9) * MINUTE, notice=notice)
    weekly = d.MaintenanceWindow(days=("thu",), opens=2, closes=chance.number(3, 20), notice=notice)
    return {"maintenance": chance.among([*[()] * 6, (once,), (weekly,), (once, weekly)])}


def supply(chance: Chance) -> tuple[list[Nodes], list[d.Pool], dict[str, int]]:
    """Nodes, pools, and the GPU units that each pool has to give."""
    nodes, pools, has = [], [], {}
    for name in ["west", "east"][: chance.number(1, 2)]:
        row = Nodes(
            name=name,
            count=chance.number(1, 2),
            labels={"site": name},
            gpus=chance.number(2, 4),
            gpu_model="H100-80GB",
            cpus=chance.among([4, 64]),
            suspends=chance.among([True, True, False]),
            mig=chance.among([False, False, False, True]),
        )
        units = row.count * row.gpus * GPU_UNITS
        capacity = chance.among([{}, {}, {JOB: 6}, {GPU: max(GPU_UNITS, units - GPU_UNITS)}, {CPU: 4 * row.count * CPU_UNITS}])
        nodes.append(row)
        given = dedications(chance, name, nodes) | growth(chance) | maintenance(chance)
        backfill = chance.among([0, MINUTE, 5 * MINUTE])
        pools.append(
            d.Pool(
                name=name,
                selector={"site": name},
                capacity=capacity,
                profile_order=chance.among([(), ("p1",), ("p2", "p0")]),
                backfill_for=backfill,
                keep_for=chance.among([0, MINUTE, 2 * MINUTE, HOUR]),
                nomination_timeout=2 * MINUTE,
                **given,
            )
        )
        has[name] = capacity.get(GPU, units)
    return nodes, pools, has


def devices(chance: Chance, *, may_cut: bool) -> dict[str, object]:
    """What one replica takes: of devices, or a slice of one, and perhaps some cpu."""
    cpu = chance.among([{}, {CPU: CPU_UNITS}, {CPU: 3 * CPU_UNITS}])
    if may_cut and chance.coin():
        return {"mig": chance.among(SLICES), "request": cpu}
    return {"request": {GPU: chance.among(SIZES)} | cpu}


def profiles(chance: Chance, pools: list[str], *, may_cut: bool) -> tuple[d.Profile, ...]:
    return tuple(
        d.Profile(
            name=f"p{place}",
            **devices(chance, may_cut=may_cut),
            replicas=chance.among([1, 1, 1, 2]),
            pools=tuple(chance.order(pools)[: chance.number(1, len(pools))]),
            reclaim_before_spill=chance.coin(),
        )
        for place in range(chance.number(1, 3))
    )


def policies(
    chance: Chance, tenants: list[str], links: tuple[d.Profile, ...], has: dict[str, int]
) -> tuple[tuple[d.Policy, ...], dict[tuple[str, str], int]]:
    """Policies, and what each tenant's policies have reserved in each pool. What is reserved is taken from `has`.

    Policy-wide, in one pool, or `pinned`: in each pool, and as much policy-wide (R7).
    """
    left, reserved, written = dict(has), {}, []
    for place in range(chance.number(2, 4)):
        tenant, form = chance.among(tenants), chance.among(["wide", "wide", "per pool", "pinned", "none"])
        blocks = {}
        for pool in sorted(left) if form == "pinned" else [chance.among(sorted(left))]:
            half = left[pool] // 2 // QUARTER * QUARTER
            reservation = chance.among([0, half, half, left[pool]])
            left[pool] -= reservation
            reserved[tenant, pool] = reserved.get((tenant, pool), 0) + reservation
            blocks[pool] = {GPU: reservation, JOB: chance.number(1, 4), CPU: chance.number(0, 4) * CPU_UNITS}
        block = {key: sum(one[key] for one in blocks.values()) for key in (GPU, JOB, CPU)}
        ceiling = chance.among([{}, {GPU: block[GPU] + chance.number(0, 12) * QUARTER}, {JOB: 3 + block[JOB]}])
        written.append(
            d.Policy(
                tenant=tenant,
                name=f"q{place}",
                profiles=tuple(d.PolicyProfile(name=link.name, borrow=chance.among([True, True, False])) for link in links),
                beyond_limit=chance.among([(), (), ("ann",)]),
                priority=chance.number(0, 2),
                weight=chance.number(1, 3),
                reservation=block if form in ("wide", "pinned") else None,
                limit=ceiling if form != "per pool" else {},
                per_pool=pinned(blocks, ceiling if form == "per pool" else {}) if form in ("per pool", "pinned") else {},
                preemption=terms(chance),
                **calendars(chance),
                **among_users(chance),
            )
        )
    return tuple(written), reserved


def pinned(blocks: dict[str, dict[str, int]], limit: dict[str, int]) -> dict[str, d.Scope]:
    """What a policy has reserved in each of some pools."""
    return {pool: d.Scope(reservation=block, limit=limit) for pool, block in blocks.items()}


def submits(chance: Chance, place: int, law: tuple[d.Policy, ...], links: tuple[d.Profile, ...]) -> Submit:
    policy, duration = chance.among(law), chance.among(DURATIONS)
    return Submit(
        name=f"j{place}",
        queue=f"{policy.name}/{chance.among(links).name}",
        count=chance.number(1, 3),
        tenant=policy.tenant,
        user=chance.among(["ann", "bob", "cid"]),
        duration=duration,
        preemptible=chance.among([True, True, True, False]),
        priority=chance.number(0, 2),
        time_limit=chance.among([None, None, 50 * SECOND, 400 * SECOND]),
        max_retries=chance.number(0, 1),
        abort_takes=chance.among(GRACES),
        checkpoint_every=chance.among([None, None, None, HOUR, 30 * SECOND]) if duration else None,
    )


def fillers(chance: Chance, place: int, law: tuple[d.Policy, ...], links: tuple[d.Profile, ...]) -> Moment:
    """Work that comes first, borrows what is not used yet, and goes on until it has to yield."""
    policy = chance.among(law)
    jobs = Submit(
        name=f"f{place}",
        queue=f"{policy.name}/{chance.among(links).name}",
        count=chance.number(1, 4),
        tenant=policy.tenant,
        user="ann",
        duration=None,
        preemptible=True,
        abort_takes=chance.among(GRACES),
    )
    return Moment(at=chance.number(0, 20) * SECOND, submit=jobs)


def joins(chance: Chance, rows: list[Nodes], name: str, at: int) -> list[Moment]:
    """One more node of a site, which may be lost and come back as any other may (R6, R10, R38)."""
    row = chance.among(rows)
    new = Nodes(name=name, labels=row.labels, gpus=chance.number(1, 4), gpu_model=row.gpu_model, cpus=row.cpus, mig=row.mig)
    moments = [Moment(at=at, node_joins=new)]
    if chance.coin():
        lost = at + chance.among(MOMENTS)
        moments += [Moment(at=lost, node_lost=name), Moment(at=lost + chance.among(MOMENTS), node_back=name)]
    return moments


def edits(chance: Chance, law: tuple[d.Policy, ...], pools: list[d.Pool]) -> d.Documents:
    """A pool or a policy written anew, a policy never with more reserved than before."""
    if chance.number(0, 3) == 0:
        pool = chance.among(pools)
        capacity = chance.among([{}, {JOB: 3}, {GPU: 2 * GPU_UNITS}, {GPU: 5 * GPU_UNITS, CPU: 6 * CPU_UNITS}])
        given = {"dedicated_to": d.Owner(policy="default/q1")} if chance.number(0, 3) == 0 else {}
        return d.Documents(
            pools=(d.Pool(name=pool.name, selector=pool.selector, capacity=capacity, nomination_timeout=MINUTE, **given),)
        )
    old = chance.among(law)
    reserved = old.reservation or {}
    limit = chance.among(
        [
            {GPU: reserved.get(GPU, 0) + chance.number(0, 8) * QUARTER},
            {JOB: reserved.get(JOB, 0) + chance.number(0, 2)},
        ]
    )
    new = d.Policy(
        tenant=old.tenant,
        name=old.name,
        profiles=old.profiles,
        beyond_limit=chance.among([(), ("bob",)]),
        priority=chance.number(0, 2),
        weight=old.weight,
        reservation=None if old.reservation is None or chance.coin() else old.reservation,
        limit=limit if chance.coin() else old.limit,
        per_pool=old.per_pool,
        preemption=terms(chance),
        windows=chance.among([old.windows, ()]),
        **(among_users(chance) if chance.coin() else {"fair_among": old.fair_among, "per_user": old.per_user}),
        budgets=old.budgets,
    )
    return d.Documents(policies=(new,))


def closings(chance: Chance, law: tuple[d.Policy, ...], pools: list[d.Pool]) -> Delete:
    """A policy or a pool, by mode; where it is not to be had, nothing happens."""
    mode = chance.among(["freeze", "drain", "cancel"])
    if chance.number(0, 3) == 0:
        return Delete(kind="pool", name=chance.among(pools).name, mode=mode)
    policy = chance.among(law)
    return Delete(kind="policy", name=policy.name, tenant=policy.tenant, mode=mode)


def ailments(chance: Chance, machines: list[str], at: int) -> list[Moment]:
    """A node is set aside, or does not start what it should, until it is well again."""
    node, ails = chance.among(machines), chance.among(["drain", "drain", "cordon", "refuse_starts", "stall_starts"])
    begins = {"begins": at + chance.number(1, 8) * MINUTE} if ails == "drain" and chance.coin() else {}
    moments = [Moment(at=at, **{ails: node}, **begins), Moment(at=at + chance.among(MOMENTS), uncordon=node)]
    if ails.endswith("starts"):
        moments.append(Moment(at=at + chance.among(MOMENTS), allow_starts=node))
    return moments


@st.composite
def scenarios(draw: Callable[[st.SearchStrategy[int]], int]) -> Scenario:
    chance = Chance(draw)
    nodes, pools, has = supply(chance)
    links = profiles(chance, [pool.name for pool in pools], may_cut=any(row.mig for row in nodes))
    tenants = chance.among([["default"], ["default"], ["acme", "bcme"]])
    law, reserved = policies(chance, tenants, links, has)
    shared = chance.coin()
    shares = {
        tenant: tuple(
            d.Share(pool=pool, reservation={GPU: units, JOB: 9}, limit={GPU: units + chance.number(0, 8) * QUARTER})
            for (owner, pool), units in sorted(reserved.items())
            if owner == tenant and shared
        )
        for tenant in tenants
    }
    jobs = [submits(chance, place, law, links) for place in range(chance.number(6, 16))]
    names = [name for job in jobs for name in _names(job)]
    machines = [name for row in nodes for name in _names(row)]
    moments = [Moment(at=chance.among(MOMENTS), submit=job) for job in jobs]
    moments += [fillers(chance, place, law, links) for place in range(chance.number(0, 6))]
    submitted = {name: moment.at for moment in moments if moment.submit for name in _names(moment.submit)}
    for place in range(chance.number(0, 8)):
        at, what = (
            chance.among(MOMENTS),
            chance.among(["cancel", "requeue", "finish", "fail", "force", "lost", "apply", "delete", "node", "join"]),
        )
        if what == "lost":
            node = chance.among(machines)
            back = at + chance.among([0, 30 * SECOND, 5 * MINUTE])
            moments += [Moment(at=at, node_lost=node), Moment(at=back, node_back=node)]
        elif what == "apply":
            moments.append(Moment(at=at, apply=edits(chance, law, pools)))
        elif what == "node":
            moments += ailments(chance, machines, at)
        elif what == "join":
            moments += joins(chance, nodes, f"new-{place}", at)
        elif what == "delete":
            moments.append(Moment(at=at, delete=closings(chance, law, pools)))
        else:
            name = chance.among(names)
            moments.append(Moment(at=max(at, submitted[name]), **{what: name}))
    moments.append(Moment(at=QUIET_AT, expect=Expect()))
    documents = d.Documents(
        tenants=tuple(d.Tenant(name=name, shares=shares[name]) for name in tenants if name != "default" or shares[name]),
        pools=tuple(pools),
        profiles=links,
        policies=law,
    )
    return Scenario(documents=documents, nodes=tuple(nodes), timeline=tuple(moments))


def _names(row: Submit | Nodes) -> list[str]:
    return [row.name] if row.count == 1 else [f"{row.name}-{place}" for place in range(1, row.count + 1)]
