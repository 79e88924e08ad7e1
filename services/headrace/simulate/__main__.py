"""`python -m headrace.simulate`: answers the what-if questions of a service."""

from __future__ import annotations

from headrace.simulate.whatif_process import main

if __name__ == "__main__":
    raise SystemExit(main())
