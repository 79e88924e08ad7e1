"""How a job ended, in a few words: the exit code and its cause (R30)."""

from __future__ import annotations

import signal

from headrace.contracts.messages.queries import JobView

SIGNALLED = 128
"""A shell's exit code for a command that a signal ended is this and the signal's number (POSIX)."""


def ending(view: JobView) -> str:
    """`exit code 127: command not found: trian.py`; the message where there is one, else what the code stands for. Or empty."""
    cause = view.message or _reason(view) or (_meaning(view.exit_code) if view.reason in ("", "exited") else "")
    code = f"exit code {view.exit_code}" if view.exit_code else ""
    return ": ".join(filter(None, (code, cause)))


def _reason(view: JobView) -> str:
    return "" if view.reason in ("exited", view.state) else view.reason.replace("_", " ")


def _meaning(code: int | None) -> str:
    match code:
        case 126:
            return "a command in it could not be run"
        case 127:
            return "a command in it was not found"
        case int() if SIGNALLED < code < SIGNALLED + signal.NSIG:
            return f"ended by {_signal(code - SIGNALLED)}"
    return ""


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
