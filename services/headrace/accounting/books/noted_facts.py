"""Facts that become rows by themselves, without an account of a job."""

from __future__ import annotations

from headrace.accounting.books import instances, preemptions

NOTED = {**preemptions.NOTED, **instances.NOTED}
"""Functions that note a fact in the changes, by its type."""
