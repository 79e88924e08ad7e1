"""Entry point of `python -m headrace.accounting`, the service as a process; HEADRACE_POSTGRES_DSN names the database."""

from __future__ import annotations

import headrace.health.without_rich  # noqa: F401 - before structlog
from headrace.accounting.service import main
from headrace.bus.process import run_service

if __name__ == "__main__":
    run_service("accounting", main)
