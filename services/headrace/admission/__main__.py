"""`python -m headrace.admission`: the service as a process."""

from __future__ import annotations

from headrace.admission.service import main
from headrace.bus.process import run_service
from headrace.service.intake import with_intake

if __name__ == "__main__":
    run_service("admission", with_intake(main))
