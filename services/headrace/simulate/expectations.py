"""Compares what a scenario expects with the world: one line for each difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.facts import JobEndedV1, JobRejectedV1
from headrace.contracts.values.amounts import AmountError, format_amount, parse_amount
from headrace.contracts.values.durations import format_duration
from headrace.contracts.values.ids import array_of
from headrace.domain.explain.availability import stocks
from headrace.domain.explain.wait_reasons import wait_of
from headrace.domain.fold import arrays
from headrace.domain.model.job_states import JobState
from headrace.domain.state.quota import borrowed
from headrace.simulate.names import find_policy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.state import State
    from headrace.simulate.scenario import Expect
    from headrace.simulate.world import World


NEVER = "never submitted"


class Comparison(NamedTuple):
    """One value of an expectation beside the value that the run has; `path`: its keys below `expect` in the scenario file."""

    path: tuple[str, ...]
    what: str
    wanted: str
    found: str


def state_of(world: World, name: str) -> str:
    """A job's state in the words of the interfaces page, by its name; from the history, because the fold forgets jobs in the end (R14)."""
    key = world.names.get(name)
    if key is None:
        return NEVER
    job = world.state.jobs.get(key)
    if job is not None:
        return _shown(job)
    if key in world.state.arrays:
        array = world.state.arrays[key]
        return "running" if array.busy else array.job.state.value
    if array_of(key) in world.state.arrays:
        return str(arrays.state_of(world.state, key) or "rejected")
    ends = (fact for stated in reversed(world.history) for fact in stated.facts if isinstance(fact, JobEndedV1))
    return next((fact.state for fact in ends if fact.job == key), "rejected")


def _shown(job: JobRecord) -> str:
    """Show starting as running, and stopping because of a preemption as preempting, as `views` does."""
    if job.state is JobState.STARTING:
        return "running"
    if job.state is JobState.STOPPING:
        return "preempting" if job.stop is not None and job.stop.cause == "preempted" else "stopping"
    return job.state.value


def differences(world: World, at: int, expect: Expect) -> Iterator[str]:
    """Yield `10s: job r-4: expected running, is pending` for every difference."""
    for one in comparisons(world, expect):
        if one.wanted != one.found:
            yield f"{format_duration(at)}: {one.what}: expected {one.wanted}, is {one.found}"


def comparisons(world: World, expect: Expect) -> Iterator[Comparison]:
    """One for each value that an expectation names, equal or not."""
    state = world.state
    for name, wanted in expect.jobs.items():
        yield Comparison(("jobs", name), f"job {name}", wanted, state_of(world, name))
    for name, wanted in expect.reasons.items():
        yield Comparison(("reasons", name), f"reason of {name}", wanted, _reason_of(world, name))
    for name, wanted in expect.job_pools.items():
        yield Comparison(("job_pools", name), f"pool of {name}", wanted, _pool_of(world, name))
    for name, wanted in expect.job_nodes.items():
        yield Comparison(("job_nodes", name), f"nodes of {name}", wanted, _nodes_of(world, name))
    for pool, keys in expect.pools.items():
        for key, amounts in keys.items():
            for what, written in amounts.items():
                found = _in_pool(state, pool, key, what)
                yield Comparison(("pools", pool, key, what), f"{key} {what} in pool {pool}", _plain(key, written), found)
    for policy, keys in expect.policies.items():
        for key, amounts in keys.items():
            for what, written in amounts.items():
                found = _of_policy(state, policy, key, what)
                yield Comparison(
                    ("policies", policy, key, what), f"{key} {what} of policy {policy}", _plain(key, written), found
                )
    if expect.preemptions is not None:
        yield Comparison(("preemptions",), "preemptions", str(expect.preemptions), str(state.preemptions_ordered))


def _plain(key: str, written: str) -> str:
    try:
        return format_amount(key, parse_amount(key, written))
    except AmountError as error:
        return str(error)


def _reason_of(world: World, name: str) -> str:
    key = world.names.get(name)
    if key is None:
        return NEVER
    job = arrays.element_of(world.state, key)
    if key in world.state.arrays:
        array = world.state.arrays[key]
        job = array.front if array.front is not None and array.front.state is JobState.PENDING else array.job
    if job is None:
        rejections = [fact for stated in world.history for fact in stated.facts if isinstance(fact, JobRejectedV1)]
        return next((fact.reason for fact in rejections if fact.job == key), "none")
    return str(wait_of(world.state, job, world.now).reason) if job.state is JobState.PENDING else job.reason or "none"


def _pool_of(world: World, name: str) -> str:
    key = world.names.get(name)
    if key is None:
        return NEVER
    job = world.state.jobs.get(key)
    return next((lease.pool for lease in job.leases.values()), "none") if job is not None else "none"


def _nodes_of(world: World, name: str) -> str:
    key = world.names.get(name)
    if key is None:
        return NEVER
    job = world.state.jobs.get(key)
    leases = sorted(job.leases.values(), key=lambda lease: lease.rank) if job is not None else []
    return ", ".join(lease.node for lease in leases) or "none"


def _in_pool(state: State, name: str, key: str, what: str) -> str:
    pool = state.pools.get(name)
    if pool is None:
        return "no such pool"
    stock = stocks(state, pool, [key])[key]
    words = ("used", "kept", "free", "unusable", "capacity")
    return format_amount(key, getattr(stock, what)) if what in words else f"unknown; write {', '.join(words)}"


def _of_policy(state: State, name: str, key: str, what: str) -> str:
    policy = find_policy(state, *reversed(name.rsplit("/", 1)))
    if policy is None:
        return "no such policy"
    used, over = policy.wide.leased.get(key, 0), borrowed(policy.wide, key)
    values = {"used": used, "reserved": used - over, "borrowed": over}
    return format_amount(key, values[what]) if what in values else f"unknown; write {', '.join(values)}"
