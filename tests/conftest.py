"""What holds for every test: Hypothesis finds the same examples in every run, a busy machine is no failure, and a process' logging
configuration that a test has set up goes with the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

settings.register_profile("headrace", deadline=None, derandomize=True, database=None)
settings.load_profile("headrace")


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()
