"""`python -m headrace.governance`: the service as a process."""

from __future__ import annotations

from headrace.bus.process import run_service
from headrace.governance.service import main
from headrace.service.intake import with_intake

if __name__ == "__main__":
    run_service("governance", with_intake(main))
