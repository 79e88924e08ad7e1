"""Runs `python -m headrace.node_executor`."""

from __future__ import annotations

import headrace.health.without_rich  # noqa: F401 - before structlog
from headrace.node_executor.main import main

if __name__ == "__main__":
    raise SystemExit(main())
