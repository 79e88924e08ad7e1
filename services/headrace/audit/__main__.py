"""Entry point of `python -m headrace.audit`, the service as a process."""

from __future__ import annotations

import headrace.health.without_rich  # noqa: F401 - before structlog
from headrace.audit.service import main
from headrace.bus.process import run_service

if __name__ == "__main__":
    run_service("audit", main)
