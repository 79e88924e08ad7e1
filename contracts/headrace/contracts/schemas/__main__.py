"""`python -m headrace.contracts.schemas`: writes the generated descriptions, or compares them with `--check`."""

from __future__ import annotations

from headrace.contracts.schemas.generate import main

if __name__ == "__main__":
    raise SystemExit(main())
