"""What the tests of the project's shape share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def _no_search_for_garbage() -> Iterator[None]:
    """Syntax trees of a thousand files stay in memory: to search them for garbage, also at the end, takes as long as to look at them."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()
