"""`python -m headrace.callout`: the service as a process."""

from __future__ import annotations

from headrace.bus.process import run_service
from headrace.callout.service import main

if __name__ == "__main__":
    run_service("callout", main)
