"""What holds for every test: Hypothesis finds the same examples in every run, and a busy machine is no failure."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("headrace", deadline=None, derandomize=True, database=None)
settings.load_profile("headrace")
