"""MPS, with a stand-in for its control program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.enforcement import CannotEnclose
from headrace.node_executor.enforcement.mps import MpsMechanism
from headrace.node_executor.enforcement.parts import part_of
from headrace.node_executor.enforcement.probe_run import ProbeRun
from tests.mock_nvml import Machine
from tests.unit.node_executor.enforcement.conftest import FIRST, HALF, WHOLE

QUARTER = HALF.__class__(device=FIRST, units=HALF.units // 2)
HALF_MIB, QUARTER_MIB = part_of(81_559, HALF.units), part_of(81_559, QUARTER.units)


@pytest.fixture
def mechanism(devices: NvmlDevices, machine: Machine, tmp_path: Path) -> MpsMechanism:
    return MpsMechanism(devices, str(tmp_path / "mps"), machine.mps_control)


def daemon_commands(tmp_path: Path) -> list[str]:
    """What the daemon of the first device was told, in its life that lasts, or its last."""
    pipe = tmp_path / "mps" / FIRST
    return (pipe / ("daemon" if (pipe / "daemon").exists() else "was")).read_text().splitlines()


def test_it_proves_itself_with_a_daemon_of_its_own(mechanism: MpsMechanism, case, tmp_path: Path) -> None:
    mechanism.enclose(case(HALF))
    assert mechanism.prove() == "cooperative"
    assert daemon_commands(tmp_path)[-1] == f"set_default_device_pinned_mem_limit 0 {HALF_MIB}M"
    assert [name for name in os.listdir(tmp_path) if "probe" in name] == []


def test_only_what_no_job_can_get_around_is_the_drivers(
    devices: NvmlDevices, machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for gpu in (0, 1):
        machine.set("compute_mode", 3, gpu=gpu)
    assert MpsMechanism(devices, str(tmp_path / "mps"), machine.mps_control).prove() == "driver"
    monkeypatch.setattr(
        "headrace.node_executor.enforcement.probe_run._surroundings", lambda: {**os.environ, "MOCK_MPS_ESCAPE": "1"}
    )
    assert MpsMechanism(devices, str(tmp_path / "mps"), machine.mps_control).prove() == "cooperative"


def test_without_its_program_or_where_that_refuses_it_does_not(devices: NvmlDevices, tmp_path: Path, machine: Machine) -> None:
    assert MpsMechanism(devices, str(tmp_path / "mps"), "").prove() == ""
    assert MpsMechanism(devices, str(tmp_path / "mps"), "/bin/false").prove() == ""
    assert MpsMechanism(devices, str(tmp_path / "mps"), "/no/such/program").prove() == ""


def test_leases_share_a_daemon_that_allows_what_the_largest_may_have(mechanism: MpsMechanism, case, tmp_path: Path) -> None:
    one = mechanism.enclose(case(QUARTER, lease="a.b.q/1/0"))
    other = mechanism.enclose(case(HALF, lease="a.b.h/1/0"))
    assert one.env["CUDA_MPS_PIPE_DIRECTORY"] == other.env["CUDA_MPS_PIPE_DIRECTORY"] == f"{tmp_path}/mps/{FIRST}"
    assert (one.env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"], one.env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]) == (
        f"0={QUARTER_MIB}M",
        "25",
    )
    assert mechanism.open("a.b.h/1/0") == ""
    assert mechanism.open("a.b.q/1/0") == mechanism.open("a.b.q/1/0") == ""
    limits = [f"set_default_device_pinned_mem_limit 0 {mib}M" for mib in (QUARTER_MIB, HALF_MIB, QUARTER_MIB)]
    assert daemon_commands(tmp_path) == [*limits, "quit"]


def test_a_job_gets_its_part_and_no_more(mechanism: MpsMechanism, case) -> None:
    got = mechanism.enclose(case(QUARTER))
    assert ProbeRun().refuses_beyond(QUARTER_MIB, got.env)
    mechanism.open("acme.alice.j/1/0")


def test_whole_gpus_need_none(mechanism: MpsMechanism, case) -> None:
    assert mechanism.enclose(case(WHOLE)).env == {}


def test_a_daemon_that_a_former_executor_started_is_told_to_end_with_the_last_lease(
    mechanism: MpsMechanism, case, devices: NvmlDevices, machine: Machine, tmp_path: Path
) -> None:
    mechanism.enclose(case(HALF))
    heir = MpsMechanism(devices, str(tmp_path / "mps"), machine.mps_control)
    heir.adopt(case(HALF))
    heir.open("acme.alice.j/1/0")
    assert daemon_commands(tmp_path)[-1] == "quit"


def test_a_daemon_that_runs_already_will_do(
    mechanism: MpsMechanism, case, devices: NvmlDevices, machine: Machine, tmp_path: Path
) -> None:
    mechanism.enclose(case(HALF))
    heir = MpsMechanism(devices, str(tmp_path / "mps"), machine.mps_control)
    heir.enclose(case(QUARTER, lease="a.b.q/1/0"))
    assert daemon_commands(tmp_path)[-2:] == ["get_server_list", f"set_default_device_pinned_mem_limit 0 {QUARTER_MIB}M"]


def test_a_daemon_that_neither_starts_nor_answers_is_told(devices: NvmlDevices, case, tmp_path: Path) -> None:
    with pytest.raises(CannotEnclose, match="the MPS daemon refuses"):
        MpsMechanism(devices, str(tmp_path / "mps"), "/bin/false").enclose(case(HALF))


def test_a_directory_that_is_too_long_for_a_socket_is_named_as_the_cause(devices: NvmlDevices, case, tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    size = len(f"{long}/{FIRST}/control")
    with pytest.raises(
        CannotEnclose, match=f"the path of its socket has {size} bytes, and 107 are possible: give a shorter --data$"
    ):
        MpsMechanism(devices, str(long), "/bin/false").enclose(case(HALF))
