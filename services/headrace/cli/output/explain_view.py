"""The answer of `headrace why` for people: the reason, what is missing, which jobs hold it or go first, and what would help."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.cli.output.formatting import amounts, local
from headrace.cli.output.tables import pairs, table
from headrace.contracts.messages.explanation import ChangeView, Holder, PoolNeed, UnusableView, Waiter, WhyView
from headrace.contracts.values.amounts import GPU, format_amount
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import split_job_key

OTHERS = "other tenants"
UNUSABLE_HEADS = ("UNUSABLE", "POOL", "NODE", "BECAUSE", "BY", "SINCE")


def because(view: WhyView) -> str:
    """The whole answer: a summary, then tables of pools, of holders, and of the jobs that go first."""
    return "\n\n".join((_first(view), *_tables(view)))


def _first(view: WhyView) -> str:
    listed = {holder.job for holder in view.holders}
    others = any(not holder.job for holder in view.holders)
    blockers = [name for name in view.blockers if name not in listed and not (others and name.startswith(OTHERS))]
    blockers = [] if view.holders_more else blockers  # the table says how many more there are
    return pairs(
        (
            ("state", view.state),
            ("reason", view.reason),
            ("because", view.message),
            ("in the way", ", ".join(_named(name) for name in blockers)),
            ("position", view.position or None),
            ("could reclaim", _reclaim(view)),
            ("expected start", _start(view)),
            ("cheapest change", _change(view.cheapest, view.now)),
            ("note", "; ".join(view.notes)),
            ("as of", f"record {view.sequence}, {local(view.now)}" if view.sequence else None),
        )
    )


def _named(name: str) -> str:
    """Id of a job's key; any other text unchanged."""
    return split_job_key(name)[2] if name.count(".") == 2 and " " not in name else name


def _start(view: WhyView) -> str:
    if not view.expected_start:
        return f"unknown: {view.assumption}" if view.assumption else ""
    return f"{_moment(view.expected_start, view.now)}, if {view.assumption}"


def _moment(start: int, now: int) -> str:
    return "now" if start <= now + SECOND else local(start)


def _reclaim(view: WhyView) -> str:
    if view.reclaim is None:
        return "yes" if view.could_reclaim else ""
    verdict = "yes" if view.reclaim.could else "no"
    by = f" by {local(view.reclaim.at)}" if view.reclaim.at else ""
    return f"{verdict}{by}: {view.reclaim.why}"


def _change(change: ChangeView | None, now: int) -> str:
    if change is None:
        return ""
    if change.start is None:
        return change.text
    where = f" in pool {change.pool}" if change.pool else ""
    text = change.text.replace(change.job, _named(change.job)) if change.job else change.text
    return f"{text}: it would start {_moment(change.start, now)}{where}"


def _tables(view: WhyView) -> Iterator[str]:
    if view.pools:
        yield table(("POOL", "REASON", "FITS", "ASKS", "FREE", "MISSING", "IN THE WAY"), map(_pool, view.pools))
    unusable = [(one, need.pool) for need in view.pools for one in need.unusable]
    if unusable:
        yield table(UNUSABLE_HEADS, (unusable_row(*pair) for pair in unusable))
    if view.holders:
        rows = [*map(_holder, view.holders), *_more(view.holders_more)]
        yield table(("HELD BY", "HOLDS", "NODES", "PREEMPTIBLE", "GONE BY"), rows)
    if view.behind:
        rows = [*map(_waiter, view.behind), *(row[:2] for row in _more(view.behind_more))]
        yield table(("BEHIND", "ASKS"), rows)


def unusable_row(one: UnusableView, pool: str) -> tuple[object, ...]:
    """Row of an unusable amount: `gpu 1`, pool, node, cause, author, time."""
    why = f"{one.cause}: {one.detail}" if one.detail else one.cause
    return amounts({one.key: one.amount}), pool, one.node, why, one.by, local(one.since)


def _more(number: int) -> list[tuple[object, ...]]:
    return [(f"and {number} more", "", "", "", "")] if number else []


def _pool(need: PoolNeed) -> tuple[object, ...]:
    asks, free, missing = (
        {key.key: getattr(key, what) for key in need.keys if getattr(key, what)} for what in ("asked", "free", "missing")
    )
    fits = {"yes": "yes", "sum": "no", "node": "on no node", "device": "on no device", "domain": "not together"}.get(
        need.fit, need.fit
    )
    return need.pool, need.reason, fits, amounts(asks), amounts(free) or "nothing", amounts(missing), need.scope


def _holder(holder: Holder) -> tuple[object, ...]:
    if not holder.job:
        return OTHERS, _gpus(holder.request), "", "", ""
    gone = local(holder.until) if holder.until else "unknown"
    preemptible = "yes" if holder.preemptible else "no"
    return _named(holder.job), amounts(holder.request), ",".join(holder.nodes), preemptible, gone


def _waiter(waiter: Waiter) -> tuple[object, ...]:
    if not waiter.job:
        return OTHERS, _gpus(waiter.request)
    return _named(waiter.job), amounts(waiter.request)


def _gpus(request: dict[str, int]) -> str:
    return f"{format_amount(GPU, request[GPU])} GPUs" if request.get(GPU) else amounts(request)
