"""Standard output and error that are closed, full, or read by a program that stops reading: one line at most, never a traceback."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO

DONE, FAILED = 0, 1


def open_streams() -> None:
    """Let what is written to a stream that was closed at the start (`>&-`) go nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for as long as the process runs


def written(code: int) -> int:
    """The exit code of a command, once all that it has printed is written; another one if it cannot be."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return not_written(error)
    try:
        sys.stderr.flush()
    except OSError:
        _give_up(sys.stderr)
    return code


def not_written(error: OSError) -> int:
    """Handle output that cannot be written, because its reader has closed the pipe or the disk is full. Returns the exit code."""
    _give_up(sys.stdout)
    if isinstance(error, BrokenPipeError):  # the reader has closed the pipe
        return DONE
    complain(f"the output cannot be written: {error.strerror or error}")
    return FAILED


def complain(text: str) -> None:
    """Print a line to standard error, if it can be written."""
    try:
        print(f"headrace: {text}", file=sys.stderr, flush=True)
    except OSError:
        _give_up(sys.stderr)


def _give_up(stream: TextIO) -> None:
    """Let what is left of a stream go nowhere: Python writes it at the exit, and exits with 120 if that fails again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
