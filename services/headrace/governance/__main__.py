"""`python -m headrace.governance`: the service as a process."""

from __future__ import annotations

import headrace.health.without_rich  # noqa: F401 - before structlog
from headrace.bus.process import run_service
from headrace.governance.service import PART
from headrace.service.hosting import alone

if __name__ == "__main__":
    run_service("governance", alone(PART))
