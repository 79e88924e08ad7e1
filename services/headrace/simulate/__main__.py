"""`python -m headrace.simulate`: answers one question, what if, that a service asks on standard input."""

from __future__ import annotations

from headrace.simulate.whatif_worker import main

if __name__ == "__main__":
    raise SystemExit(main())
