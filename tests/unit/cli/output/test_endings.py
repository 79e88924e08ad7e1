"""How a job ended, in a few words."""

from __future__ import annotations

import pytest

from headrace.cli.output.endings import ending
from headrace.contracts.messages.queries import JobView


@pytest.mark.parametrize(
    ("reason", "message", "code", "expected"),
    [
        ("exited", "", 0, ""),
        ("exited", "", 3, "exit code 3"),
        ("exited", "", 126, "exit code 126: a command in it could not be run"),
        ("exited", "", 127, "exit code 127: a command in it was not found"),
        ("exited", "", 137, "exit code 137: ended by SIGKILL"),
        ("exited", "", 180, "exit code 180: ended by signal 52"),
        ("exited", "", 200, "exit code 200"),
        ("exited", "command not found: trian.py", 127, "exit code 127: command not found: trian.py"),
        ("exited", "out of memory: it was given 1GiB", 137, "exit code 137: out of memory: it was given 1GiB"),
        ("time_limit", "", 143, "exit code 143: time limit"),
        ("failed", "", None, ""),
        ("node_lost", "", None, "node lost"),
    ],
)
def test_an_end_is_its_exit_code_and_the_cause(reason, message, code, expected):
    view = JobView(
        id="", job="", tenant="", user="", name="", queue="", state="failed", reason=reason, message=message, exit_code=code
    )
    assert ending(view) == expected
