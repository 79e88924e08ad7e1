"""Orders as the feed would give them."""

from __future__ import annotations

from typing import Any, Protocol

import pytest

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.orders import StartOrder

JOB = "acme.alice.01j9z3k4m5n6p7q8r9s0t1v2w3"
OTHER_JOB = "acme.bob.01j9z3k4m5n6p7q8r9s0t1v2w4"


class MakeOrder(Protocol):
    def __call__(self, job: str = JOB, attempt: int = 1, rank: int = 0, **fields: Any) -> StartOrder: ...


def order(job: str = JOB, attempt: int = 1, rank: int = 0, **fields: Any) -> StartOrder:
    whole = {
        "granted": 5,
        "devices": (DeviceShare(device="gpu0", units=126_000),),
        "amounts": {"gpu": 126_000},
        "name": "train",
        "queue": "ai-dev/one",
        "command": ("true",),
    } | fields
    return StartOrder(lease=f"{job}/{attempt}/{rank}", job=job, attempt=attempt, rank=rank, **whole)


@pytest.fixture
def make_order() -> MakeOrder:
    return order
