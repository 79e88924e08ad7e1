"""Ctrl-C is quiet from the first moment on."""

from __future__ import annotations

import signal
import subprocess
import sys

PROGRAM = """
import builtins, os, signal, sys
usual = builtins.__import__
def interrupted(name, *rest):
    if name == MODULE:
        os.kill(os.getpid(), signal.SIGINT)
    return usual(name, *rest)
from headrace.cli.start import start
builtins.__import__ = interrupted
sys.argv = ["headrace", "rules"]
sys.exit(start())
"""


def interrupted_at(module):
    program = PROGRAM.replace("MODULE", repr(module))
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_an_interrupt_while_modules_are_imported_ends_the_process_without_a_word():
    done = interrupted_at("headrace.cli.main")
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_interrupt_while_a_commands_module_is_imported_is_an_exit_code():
    done = interrupted_at("headrace.cli.output.tables")
    assert (done.returncode in (130, -signal.SIGINT), done.stdout, done.stderr) == (True, "", "")
