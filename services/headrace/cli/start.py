"""Entry point of the `headrace` script. It imports nothing that takes time: Ctrl-C is quiet as soon as Python itself has started."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` itself imports half a dozen modules
import sys

INTERRUPTED = 130


def start() -> int:
    """Run the command of this process's arguments, and return its exit code.

    While modules are imported an interrupt ends the process at once, without a traceback.
    """
    _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from headrace.cli.main import main  # noqa: PLC0415 - see above

    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    try:
        return main()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(start())
