"""`python -m headrace.allocator`: the service as a process."""

from __future__ import annotations

from headrace.allocator.service import main
from headrace.bus.process import run_service

if __name__ == "__main__":
    run_service("allocator", main)
