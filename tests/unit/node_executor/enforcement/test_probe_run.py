from __future__ import annotations

import pytest

from headrace.node_executor.enforcement.probe_run import ProbeRun
from headrace.node_executor.system.accounts import TRIAL, UserAccount
from tests.mock_nvml import Machine

send, refused_beyond = ProbeRun().send, ProbeRun().refuses_beyond


def test_its_answers_come_back_and_silence_is_not_an_answer(machine: Machine) -> None:
    assert send(("open", "/dev/null", "/dev/nothing"), {}) == [1, 0]
    assert send(("take", "much"), {}) == []
    assert send(("open", "/dev/null"), {}, prefix=("/no/such/program",)) == []
    assert send(("open", "/dev/null"), {}, group="/no/such/group") == []


def test_it_is_run_as_a_job_is_under_the_account_with_its_groups_and_without_new_privileges(as_a_job: ProbeRun) -> None:
    account = UserAccount(TRIAL, TRIAL, "trial", (TRIAL - 1,))
    trial, outputs = ProbeRun(account), []
    for line in ("id -u", "id -G", "grep NoNewPrivs /proc/self/status | tr -d '[:space:]'"):
        assert trial.send(("open", "/dev/null"), {}, prefix=("/bin/sh", "-c", f"{line} >&2; exit 3")) == []
        outputs.append(trial.message)
    assert outputs == [str(TRIAL), f"{TRIAL} {TRIAL - 1}", "NoNewPrivs:1"]


def test_what_nothing_holds_back_is_not_refused(machine: Machine) -> None:
    assert not refused_beyond(512, {"CUDA_VISIBLE_DEVICES": "0"})


def test_that_a_device_is_full_proves_nothing(machine: Machine, sleeper: int) -> None:
    machine.process(sleeper, 81_000)
    assert send(("take", "16", "576"), {"CUDA_VISIBLE_DEVICES": "0"})[:2] != [0, 0]
    assert not refused_beyond(512, {"CUDA_VISIBLE_DEVICES": "0"})


@pytest.mark.parametrize(("part", "refused"), [(1_500, True), (300, False)])
def test_what_something_holds_back_at_that_very_size_is_refused(machine: Machine, tmp_path, part: int, refused: bool) -> None:
    (tmp_path / "limit").write_text("1100")  # a context takes 500 of it
    env = {"CUDA_VISIBLE_DEVICES": "0", "CUDA_MPS_PIPE_DIRECTORY": str(tmp_path)}
    assert refused_beyond(part, env) is refused
