"""Entry point of `python -m headrace.cli`, the command without its script."""

from __future__ import annotations

import sys

from headrace.cli.start import start

if __name__ == "__main__":
    sys.exit(start())
