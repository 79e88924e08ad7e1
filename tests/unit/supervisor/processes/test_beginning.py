"""What a process does before it becomes a part of Headrace."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os
from headrace.supervisor.processes.beginning import begin_session
if os.fork():
    os.wait()
else:
    begin_session(0)
    leads = os.getsid(0) == os.getpid()
    print(leads, os.readlink("/proc/self/fd/0"), os.path.exists("/proc/self/fd/3"), flush=True)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows the files of a process")
@pytest.mark.parametrize("redirection", ["", "<&-"], ids=["open", "closed"])
def test_a_session_has_no_input_and_no_file_too_many_whether_or_not_the_input_was_open(redirection):
    command = ["sh", "-c", f'exec "$0" -c "$1" {redirection}', sys.executable, PROGRAM]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout == "True /dev/null False\n"
