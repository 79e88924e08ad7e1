"""`python -m headrace.allocator`: the service as a process."""

from __future__ import annotations

from headrace.allocator.service import PART
from headrace.bus.process import run_service
from headrace.service.hosting import alone

if __name__ == "__main__":
    run_service("allocator", alone(PART))
