"""One ledger for all tests of the audit."""

from __future__ import annotations

import pytest

from headrace.bus.log import Message
from tests.unit.audit.ledgers import played


@pytest.fixture(scope="session")
def written() -> tuple[Message, ...]:
    """A ledger with a reclaim in it: governance, admission, allocator, preemption and nodes have spoken."""
    return tuple(played("V02"))
