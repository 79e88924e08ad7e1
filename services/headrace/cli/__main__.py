"""Entry point of `python -m headrace.cli`, the command without its script."""

from __future__ import annotations

import sys

from headrace.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
