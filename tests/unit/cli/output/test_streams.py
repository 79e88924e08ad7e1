"""Output that cannot be written is one line at most, whatever prints it."""

from __future__ import annotations

import subprocess
import sys

import pytest

FULL = "headrace: the output cannot be written: No space left on device\n"


@pytest.fixture(params=["", "1"], ids=["buffered", "unbuffered"], autouse=True)
def buffering(request, monkeypatch):
    """Python keeps what is printed until a line or the buffer is full, or it does not."""
    monkeypatch.setenv("PYTHONUNBUFFERED", request.param)


def run(words, redirection):
    """A real command with its output led somewhere by a shell: (exit code, standard error)."""
    line = f'"{sys.executable}" -m headrace.cli {words} {redirection}'
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize("words", ["rules", "--help", "submit --help", "--version"])
@pytest.mark.parametrize(("redirection", "expected"), [(">/dev/full", (1, FULL)), (">&-", (0, ""))])
def test_output_that_is_full_or_closed_prints_no_traceback(words, redirection, expected):
    assert run(words, redirection) == expected


def test_the_exit_code_is_0_if_the_reader_of_a_pipe_stops():
    assert run("rules R1 R2 R3 R4 R5 R6 R7 R8 R9 R10 R11 R12 R13 R14 R15 R16", "| head -1 >/dev/null") == (0, "")


def test_a_failure_has_its_exit_code_if_standard_error_is_closed():
    assert run("rules R1000", "2>/dev/full")[0] == 1
    assert run("rules R1000", "2>&-")[0] == 1
