"""A history with an array."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.values.arrays import ArrayRange
from tests.unit.allocator.history import History, policy

KEY = "default.ann.01kdvdna000000000000000001"


def element(index):
    return f"{KEY}-{index:06}"


def history(count=4, **array):
    past = History(policy("ml"))
    past.node(count=count)
    admit(past, KEY, **array)
    return past


def admit(past, key, after=(), **array):
    spec = ArrayRange(**{"first": 0, "last": 9, **array})
    admitted = f.JobAdmittedV1(job=key, policy="ml", profile="one", request={"gpu": 126_000}, array=spec, after=after)
    past.append_facts(admitted, by="admission")
    past.learn()


def in_line(past):
    return sorted(key for group in past.state.pending.groups.values() for key in group.members)
