"""`python -m headrace.accounting`: the service as a process. The database is named by HEADRACE_POSTGRES_DSN."""

from __future__ import annotations

from headrace.accounting.service import main
from headrace.bus.process import run_service

if __name__ == "__main__":
    run_service("accounting", main)
