"""Random histories, as scenarios: small supplies, honourable policies, and everything that can happen to jobs and nodes.

Reservations are handed out from what each pool really has, so that they can be kept together (R8); limits lie above them. All that is
left to chance is drawn by Hypothesis, which shrinks what fails to the few lines that matter.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from headrace.contracts import documents as d
from headrace.contracts.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, JOB
from headrace.contracts.durations import HOUR, MINUTE, SECOND
from headrace.simulate.scenario import Delete, Expect, Moment, Nodes, Scenario, Submit

QUARTER = GPU_UNITS // 4
QUIET_AT = 24 * HOUR
"""By then every history has come to rest: jobs that end have ended, however often they were preempted and protected (R29)."""

Draw = Callable[[st.SearchStrategy], object]

SIZES = st.sampled_from([QUARTER, 2 * QUARTER, GPU_UNITS, GPU_UNITS, GPU_UNITS, 2 * GPU_UNITS, 3 * GPU_UNITS])
SLICES = st.sampled_from(["1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"])
MOMENTS = st.sampled_from([second * SECOND for second in range(300)])
DURATIONS = st.sampled_from([*[None] * 20, *(second * SECOND for second in range(10, 500, 15))])
GRACES = st.sampled_from([0, 0, 5 * SECOND, 45 * SECOND, 200 * SECOND])


def number(least: int, most: int) -> st.SearchStrategy[int]:
    """Any of them alike: `integers` would prefer the ends."""
    return st.sampled_from(range(least, most + 1))


@st.composite
def terms(draw: Draw) -> d.PreemptionTerms:
    return d.PreemptionTerms(
        on_node_lost=draw(st.sampled_from(["requeue", "wait"])),
        on_preempt=draw(st.sampled_from(["requeue", "requeue", "cancel", "suspend", "suspend"])),
        suspend_max=draw(st.sampled_from([MINUTE, 4 * HOUR])),
        callback_grace=draw(st.sampled_from([0, 60 * SECOND])),
        term_grace=30 * SECOND,
        min_runtime=draw(st.sampled_from([0, 0, 40 * SECOND, 5 * MINUTE])),
        preempt_lower_priority=draw(st.booleans()),
        max_preemptions=draw(st.sampled_from([None, None, 0, 2])),
        assume_checkpoint_every=draw(st.sampled_from([None, None, MINUTE])),
    )


@st.composite
def calendars(draw: Draw) -> dict[str, object]:
    """Windows and budgets (R33). Histories begin at midnight of a Thursday, and neither a week nor a month ends before they do."""
    windows = draw(
        st.sampled_from(
            [
                *[()] * 6,
                (d.Window(days=("thu",), opens=0, closes=3, on_close="preempt"),),
                (d.Window(days=("thu",), opens=2, closes=4), d.Window(days=("thu",), opens=7, closes=8, on_close="preempt")),
            ]
        )
    )
    hours, per, then = number(0, 2), st.sampled_from(["week", "month"]), st.sampled_from(["wait", "borrow"])
    budget = d.Budget(key=GPU, hours=draw(hours), per=draw(per), then=draw(then))
    return {"windows": windows, "budgets": draw(st.sampled_from([(), (), (), (budget,)]))}


@st.composite
def dedications(draw: Draw, site: str, nodes: list[Nodes]) -> dict[str, object]:
    """Mostly none (R21); or the whole pool, or one more node of it, is a policy's or a tenant's."""
    owner = draw(st.sampled_from([d.Owner(policy="default/q0"), d.Owner(policy="acme/q0"), d.Owner(tenant="acme")]))
    match draw(number(0, 9)):
        case 0:
            return {"dedicated_to": owner}
        case 1 | 2:
            nodes.append(Nodes(name=f"{site}-own", labels={"site": site, "for": "owner"}, gpus=draw(number(1, 2))))
            return {"dedicated": (d.Dedication(selector={"for": "owner"}, to=owner),)}
    return {}


@st.composite
def supply(draw: Draw) -> tuple[list[Nodes], list[d.Pool], dict[str, int]]:
    """Nodes, pools, and the GPU units that each pool has to give."""
    nodes, pools, has = [], [], {}
    for name in ["west", "east"][: draw(number(1, 2))]:
        row = Nodes(
            name=name,
            count=draw(number(1, 2)),
            labels={"site": name},
            gpus=draw(number(2, 4)),
            gpu_model="H100-80GB",
            cpus=draw(st.sampled_from([4, 64])),
            suspends=draw(st.sampled_from([True, True, False])),
            mig=draw(st.sampled_from([False, False, False, True])),
        )
        units = row.count * row.gpus * GPU_UNITS
        capacity = draw(
            st.sampled_from([{}, {}, {JOB: 6}, {GPU: max(GPU_UNITS, units - GPU_UNITS)}, {CPU: 4 * row.count * CPU_UNITS}])
        )
        nodes.append(row)
        given = draw(dedications(name, nodes))
        backfill = draw(st.sampled_from([0, MINUTE, 5 * MINUTE]))
        pools.append(
            d.Pool(
                name=name,
                selector={"site": name},
                capacity=capacity,
                profile_order=draw(st.sampled_from([(), ("p1",), ("p2", "p0")])),
                backfill_for=backfill,
                nomination_timeout=2 * MINUTE,
                **given,
            )
        )
        has[name] = capacity.get(GPU, units)
    return nodes, pools, has


@st.composite
def devices(draw: Draw, *, may_cut: bool) -> dict[str, object]:
    """What one replica takes: of devices, or a slice of one, and perhaps some cpu."""
    cpu = draw(st.sampled_from([{}, {CPU: CPU_UNITS}, {CPU: 3 * CPU_UNITS}]))
    if may_cut and draw(st.booleans()):
        return {"mig": draw(SLICES), "request": cpu}
    return {"request": {GPU: draw(SIZES)} | cpu}


@st.composite
def profiles(draw: Draw, pools: list[str], *, may_cut: bool) -> tuple[d.Profile, ...]:
    return tuple(
        d.Profile(
            name=f"p{place}",
            **draw(devices(may_cut=may_cut)),
            replicas=draw(st.sampled_from([1, 1, 1, 2])),
            pools=tuple(draw(st.permutations(pools)))[: draw(number(1, len(pools)))],
            reclaim_before_spill=draw(st.booleans()),
        )
        for place in range(draw(number(1, 3)))
    )


@st.composite
def policies(
    draw: Draw, tenants: list[str], links: tuple[d.Profile, ...], has: dict[str, int]
) -> tuple[tuple[d.Policy, ...], dict[tuple[str, str], int]]:
    """Policies, and what each tenant's policies have reserved in each pool. What is reserved is taken from `has`."""
    left, reserved, written = dict(has), {}, []
    for place in range(draw(number(2, 4))):
        tenant, pool = draw(st.sampled_from(tenants)), draw(st.sampled_from(sorted(left)))
        reservation = draw(
            st.sampled_from([0, left[pool] // 2 // QUARTER * QUARTER, left[pool] // 2 // QUARTER * QUARTER, left[pool]])
        )
        left[pool] -= reservation
        reserved[tenant, pool] = reserved.get((tenant, pool), 0) + reservation
        block = {GPU: reservation, JOB: draw(number(1, 4)), CPU: draw(number(0, 4)) * CPU_UNITS}
        ceiling = draw(st.sampled_from([{}, {GPU: reservation + draw(number(0, 12)) * QUARTER}, {JOB: 3 + block[JOB]}]))
        form = draw(st.sampled_from(["wide", "wide", "per pool", "none"]))
        written.append(
            d.Policy(
                tenant=tenant,
                name=f"q{place}",
                profiles=tuple(
                    d.PolicyProfile(name=link.name, borrow=draw(st.sampled_from([True, True, False]))) for link in links
                ),
                beyond_limit=draw(st.sampled_from([(), (), ("ann",)])),
                priority=draw(number(0, 2)),
                weight=draw(number(1, 3)),
                reservation=block if form == "wide" else None,
                limit=ceiling if form != "per pool" else {},
                per_pool={pool: d.Scope(reservation=block, limit=ceiling)} if form == "per pool" else {},
                preemption=draw(terms()),
                **draw(calendars()),
            )
        )
    return tuple(written), reserved


@st.composite
def submits(draw: Draw, place: int, law: tuple[d.Policy, ...], links: tuple[d.Profile, ...]) -> Submit:
    policy, duration = draw(st.sampled_from(law)), draw(DURATIONS)
    return Submit(
        name=f"j{place}",
        queue=f"{policy.name}/{draw(st.sampled_from(links)).name}",
        count=draw(number(1, 3)),
        tenant=policy.tenant,
        user=draw(st.sampled_from(["ann", "bob"])),
        duration=duration,
        preemptible=draw(st.sampled_from([True, True, True, False])),
        priority=draw(number(0, 2)),
        time_limit=draw(st.sampled_from([None, None, 50 * SECOND, 400 * SECOND])),
        max_retries=draw(number(0, 1)),
        abort_takes=draw(GRACES),
        checkpoint_every=draw(st.sampled_from([None, None, None, HOUR, 30 * SECOND])) if duration else None,
    )


@st.composite
def fillers(draw: Draw, place: int, law: tuple[d.Policy, ...], links: tuple[d.Profile, ...]) -> Moment:
    """Work that comes first, borrows what nobody uses yet, and goes on until it has to yield."""
    policy = draw(st.sampled_from(law))
    jobs = Submit(
        name=f"f{place}",
        queue=f"{policy.name}/{draw(st.sampled_from(links)).name}",
        count=draw(number(1, 4)),
        tenant=policy.tenant,
        user="ann",
        duration=None,
        preemptible=True,
        abort_takes=draw(GRACES),
    )
    return Moment(at=draw(number(0, 20)) * SECOND, submit=jobs)


@st.composite
def edits(draw: Draw, law: tuple[d.Policy, ...], pools: list[d.Pool]) -> d.Documents:
    """A pool or a policy written anew, a policy never with more reserved than before."""
    if draw(number(0, 3)) == 0:
        pool = draw(st.sampled_from(pools))
        capacity = draw(st.sampled_from([{}, {JOB: 3}, {GPU: 2 * GPU_UNITS}, {GPU: 5 * GPU_UNITS, CPU: 6 * CPU_UNITS}]))
        given = {"dedicated_to": d.Owner(policy="default/q1")} if draw(number(0, 3)) == 0 else {}
        return d.Documents(
            pools=(d.Pool(name=pool.name, selector=pool.selector, capacity=capacity, nomination_timeout=MINUTE, **given),)
        )
    old = draw(st.sampled_from(law))
    limit = {GPU: (old.reservation or {}).get(GPU, 0) + draw(number(0, 8)) * QUARTER}
    new = d.Policy(
        tenant=old.tenant,
        name=old.name,
        profiles=old.profiles,
        beyond_limit=draw(st.sampled_from([(), ("bob",)])),
        priority=draw(number(0, 2)),
        weight=old.weight,
        reservation=None if old.reservation is None or draw(st.booleans()) else old.reservation,
        limit=limit if draw(st.booleans()) else old.limit,
        per_pool=old.per_pool,
        preemption=draw(terms()),
        windows=draw(st.sampled_from([old.windows, ()])),
        budgets=old.budgets,
    )
    return d.Documents(policies=(new,))


@st.composite
def closings(draw: Draw, law: tuple[d.Policy, ...], pools: list[d.Pool]) -> Delete:
    """A policy or a pool, by mode; where it is not to be had, nothing happens."""
    mode = draw(st.sampled_from(["freeze", "drain", "cancel"]))
    if draw(number(0, 3)) == 0:
        return Delete(kind="pool", name=draw(st.sampled_from(pools)).name, mode=mode)
    policy = draw(st.sampled_from(law))
    return Delete(kind="policy", name=policy.name, tenant=policy.tenant, mode=mode)


@st.composite
def ailments(draw: Draw, machines: list[str], at: int) -> list[Moment]:
    """A node is set aside, or does not start what it should, until it is well again."""
    node, ails = draw(st.sampled_from(machines)), draw(st.sampled_from(["drain", "cordon", "refuse_starts", "stall_starts"]))
    moments = [Moment(at=at, **{ails: node}), Moment(at=at + draw(MOMENTS), uncordon=node)]
    if ails.endswith("starts"):
        moments.append(Moment(at=at + draw(MOMENTS), allow_starts=node))
    return moments


@st.composite
def scenarios(draw: Draw) -> Scenario:
    nodes, pools, has = draw(supply())
    links = draw(profiles([pool.name for pool in pools], may_cut=any(row.mig for row in nodes)))
    tenants = draw(st.sampled_from([["default"], ["default"], ["acme", "bcme"]]))
    law, reserved = draw(policies(tenants, links, has))
    shared = draw(st.booleans())
    shares = {
        tenant: tuple(
            d.Share(pool=pool, reservation={GPU: units, JOB: 9}, limit={GPU: units + draw(number(0, 8)) * QUARTER})
            for (owner, pool), units in sorted(reserved.items())
            if owner == tenant and shared
        )
        for tenant in tenants
    }
    jobs = [draw(submits(place, law, links)) for place in range(draw(number(6, 16)))]
    names = [name for job in jobs for name in _names(job)]
    machines = [name for row in nodes for name in _names(row)]
    moments = [Moment(at=draw(MOMENTS), submit=job) for job in jobs]
    moments += [draw(fillers(place, law, links)) for place in range(draw(number(0, 6)))]
    submitted = {name: moment.at for moment in moments if moment.submit for name in _names(moment.submit)}
    for _ in range(draw(number(0, 8))):
        at, what = (
            draw(MOMENTS),
            draw(st.sampled_from(["cancel", "requeue", "finish", "fail", "force", "lost", "apply", "delete", "node"])),
        )
        if what == "lost":
            node = draw(st.sampled_from(machines))
            back = at + draw(st.sampled_from([0, 30 * SECOND, 5 * MINUTE]))
            moments += [Moment(at=at, node_lost=node), Moment(at=back, node_back=node)]
        elif what == "apply":
            moments.append(Moment(at=at, apply=draw(edits(law, pools))))
        elif what == "node":
            moments += draw(ailments(machines, at))
        elif what == "delete":
            moments.append(Moment(at=at, delete=draw(closings(law, pools))))
        else:
            name = draw(st.sampled_from(names))
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
