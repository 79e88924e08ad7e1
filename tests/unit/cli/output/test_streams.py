"""Output that cannot be written is one line at most, whatever prints it."""

from __future__ import annotations

import subprocess
import sys

import pytest

FULL = "headrace: the output cannot be written: No space left on device\n"


def run(words, redirection):
    """A real command with its output led somewhere by a shell: (exit code, standard error)."""
    line = f'"{sys.executable}" -m headrace.cli {words} {redirection}'
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", ["rules", "--help", "submit --help", "--version"])
@pytest.mark.parametrize(("redirection", "expected"), [(">/dev/full", (1, FULL)), (">&-", (0, ""))])
def test_full_and_closed_output_is_no_traceback(words, redirection, expected):
    assert run(words, redirection) == expected


def test_a_reader_that_stops_is_no_error():
    assert run("rules R1 R2 R3 R4 R5 R6 R7 R8 R9 R10 R11 R12 R13 R14 R15 R16", "| head -1 >/dev/null") == (0, "")


def test_an_error_that_nobody_can_read_is_an_exit_code():
    assert run("rules R99", "2>/dev/full")[0] == 1
    assert run("rules R99", "2>&-")[0] == 1
