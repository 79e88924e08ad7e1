"""MPS, with a stand-in for its control program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.enforcement import CannotEnclose
from headrace.node_executor.enforcement.mps import MpsFence
from headrace.node_executor.enforcement.parts import part_of
from headrace.node_executor.enforcement.trial import refused_beyond
from tests.mock_nvml import Machine
from tests.unit.node_executor.enforcement.conftest import FIRST, HALF, WHOLE

QUARTER = HALF.__class__(device=FIRST, units=HALF.units // 2)
HALF_MIB, QUARTER_MIB = part_of(81_559, HALF.units), part_of(81_559, QUARTER.units)


@pytest.fixture
def fence(devices: NvmlDevices, machine: Machine, tmp_path: Path) -> MpsFence:
    return MpsFence(devices, str(tmp_path / "mps"), machine.mps_control)


def told(tmp_path: Path) -> list[str]:
    """What the daemon of the first device was told, in its life that lasts, or its last."""
    pipe = tmp_path / "mps" / FIRST
    return (pipe / ("daemon" if (pipe / "daemon").exists() else "was")).read_text().splitlines()


def test_it_proves_itself_and_what_a_client_cannot_shake_off_is_the_drivers(fence: MpsFence, tmp_path: Path) -> None:
    assert fence.prove() == "driver"
    assert told(tmp_path) == ["set_default_device_pinned_mem_limit 0 2048M", "quit"]


def test_where_a_client_can_shake_it_off_it_is_good_manners(
    fence: MpsFence, monkeypatch: pytest.MonkeyPatch, machine: Machine, devices: NvmlDevices, tmp_path: Path
) -> None:
    wrapper = tmp_path / "escapes"
    wrapper.write_text(f'#!/bin/sh\nexec {machine.mps_control} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setattr(
        "headrace.node_executor.enforcement.trial._surroundings", lambda: {**os.environ, "MOCK_MPS_ESCAPE": "1"}
    )
    assert MpsFence(devices, str(tmp_path / "mps"), str(wrapper)).prove() == "cooperative"


def test_without_its_program_or_where_that_refuses_it_does_not(devices: NvmlDevices, tmp_path: Path, machine: Machine) -> None:
    assert MpsFence(devices, str(tmp_path / "mps"), "").prove() == ""
    assert MpsFence(devices, str(tmp_path / "mps"), "/bin/false").prove() == ""
    assert MpsFence(devices, str(tmp_path / "mps"), "/no/such/program").prove() == ""


def test_leases_share_a_daemon_that_allows_what_the_largest_may_have(fence: MpsFence, case, tmp_path: Path) -> None:
    one = fence.enclose(case(QUARTER, lease="a.b.q/1/0"))
    other = fence.enclose(case(HALF, lease="a.b.h/1/0"))
    assert one.env["CUDA_MPS_PIPE_DIRECTORY"] == other.env["CUDA_MPS_PIPE_DIRECTORY"] == f"{tmp_path}/mps/{FIRST}"
    assert (one.env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"], one.env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]) == (
        f"0={QUARTER_MIB}M",
        "25",
    )
    assert fence.open("a.b.h/1/0") == ""
    assert fence.open("a.b.q/1/0") == fence.open("a.b.q/1/0") == ""
    limits = [f"set_default_device_pinned_mem_limit 0 {mib}M" for mib in (QUARTER_MIB, HALF_MIB, QUARTER_MIB)]
    assert told(tmp_path) == [*limits, "quit"]


def test_a_job_gets_its_part_and_no_more(fence: MpsFence, case) -> None:
    got = fence.enclose(case(QUARTER))
    assert refused_beyond(QUARTER_MIB, got.env)
    fence.open("acme.alice.j/1/0")


def test_whole_gpus_need_none(fence: MpsFence, case) -> None:
    assert fence.enclose(case(WHOLE)).env == {}


def test_a_daemon_that_a_former_executor_started_is_told_to_end_with_the_last_lease(
    fence: MpsFence, case, devices: NvmlDevices, machine: Machine, tmp_path: Path
) -> None:
    fence.enclose(case(HALF))
    heir = MpsFence(devices, str(tmp_path / "mps"), machine.mps_control)
    heir.adopt(case(HALF))
    heir.open("acme.alice.j/1/0")
    assert told(tmp_path)[-1] == "quit"


def test_a_daemon_that_is_in_the_way_is_told(
    fence: MpsFence, case, devices: NvmlDevices, machine: Machine, tmp_path: Path
) -> None:
    fence.enclose(case(HALF))
    with pytest.raises(CannotEnclose, match="already running"):
        MpsFence(devices, str(tmp_path / "mps"), machine.mps_control).enclose(case(HALF))
