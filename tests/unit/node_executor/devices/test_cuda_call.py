"""The calls in a process of their own, against a libcuda without a GPU; the whole way there and back is in `test_suspending`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.node_executor.devices import cuda_call
from tests.mock_cuda import build
from tests.mock_nvml import compiler


@pytest.fixture
def call(tmp_path):
    if compiler() is None:
        pytest.skip("the mock of libcuda is built by a C compiler, and there is none")
    environment = {"LD_LIBRARY_PATH": str(build(tmp_path)), "MOCK_CUDA_STATE": str(tmp_path)}

    def make(*arguments: str, env: dict[str, str] = environment) -> str:
        command = [sys.executable, "-I", "-S", cuda_call.__file__, *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout

    return make


OWN = str(os.getpid())


def state(tmp_path: Path) -> str:
    return (tmp_path / OWN).read_text().split()[0]


def test_a_process_is_moved_off_and_back(call, tmp_path) -> None:
    (tmp_path / OWN).write_text("0 100")
    assert call("suspend", "1000", "1", OWN) == f"done {OWN}\n"
    assert state(tmp_path) == "2"
    assert call("suspend", "1000", OWN) == "failed cuCheckpointProcessLock: illegal state\n"
    assert call("resume", "1", OWN) == f"done {OWN}\n"
    assert state(tmp_path) == "0"
    assert call("resume", OWN) == f"done {OWN}\n"


def test_without_a_user_of_cuda_nothing_is_done_and_of_several_none_is_moved(call, tmp_path) -> None:
    assert call("suspend", "1000", OWN, "1") == "none\n"
    for pid in (OWN, "1"):
        (tmp_path / pid).write_text("0 100")
    assert call("suspend", "1000", OWN, "1") == "failed 2 of its processes use CUDA; only one can be suspended\n"


@pytest.mark.parametrize(
    ("refuse", "outcome"),
    [
        ("lock 600", "failed it did not come to rest in time\n"),
        ("lock 801", "failed cuCheckpointProcessLock: not supported\n"),
        ("checkpoint 304", "failed cuCheckpointProcessCheckpoint: the kernel refuses; it is as it was\n"),
    ],
)
def test_what_goes_wrong_leaves_it_as_it_was(call, tmp_path, refuse, outcome) -> None:
    (tmp_path / OWN).write_text("0 100")
    (tmp_path / "refuse").write_text(refuse)
    assert call("suspend", "1000", OWN) == outcome
    assert state(tmp_path) == "0"


def test_a_machine_without_the_library_says_so(call) -> None:
    assert call("suspend", "1000", OWN, env={}).startswith("failed the driver cannot suspend: libcuda.so.1")
