"""`python -m headrace.simulate`: answers one what-if question of a service, given on standard input."""

from __future__ import annotations

from headrace.simulate.whatif_worker import main

if __name__ == "__main__":
    raise SystemExit(main())
