"""Orders as the feed would give them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.messages.orders import StartOrder

JOB = "acme.alice.01j9z3k4m5n6p7q8r9s0t1v2w3"


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


@pytest.fixture(scope="session")
def unified() -> Iterator[str]:
    """A directory of cgroup v2 of our own."""
    with open("/proc/mounts", encoding="utf-8") as file:
        mounts = [line.split()[1] for line in file if line.split()[2] == "cgroup2"]
    base = f"{mounts[0]}/headrace-test-{os.getpid()}" if mounts else ""
    if not base or os.geteuid() != 0:
        pytest.skip("it needs root and cgroup v2")
    try:
        os.mkdir(base)
    except OSError as error:
        pytest.skip(f"it needs a cgroup of its own: {error}")
    yield base
    os.rmdir(base)
