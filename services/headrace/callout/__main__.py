"""`python -m headrace.callout`: the service as a process."""

from __future__ import annotations

import headrace.health.without_rich  # noqa: F401 - before structlog
from headrace.bus.process import run_service
from headrace.callout.service import main

if __name__ == "__main__":
    run_service("callout", main)
