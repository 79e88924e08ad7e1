"""Entry point of the `headrace` script. It imports nothing that takes time, so that Ctrl-C is quiet from the first moment on."""

from __future__ import annotations

import signal
import sys

INTERRUPTED = 130


def start() -> int:
    """Run the command of this process's arguments, and return its exit code."""
    signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # while modules are imported an interrupt ends the process, without a traceback
    from headrace.cli.main import main  # noqa: PLC0415 - see above

    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return main()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(start())
