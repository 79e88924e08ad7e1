from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.devices.simulated import simulated
from headrace.node_executor.enforcement.discovery import PLACE, mechanisms_for, native_place, unified_base
from headrace.node_executor.enforcement.enforcement import Mechanisms
from headrace.node_executor.enforcement.probe_run import ProbeRun
from tests.mock_nvml import compiler


def test_around_simulated_devices_there_is_nothing_to_be_fenced(tmp_path: Path) -> None:
    assert mechanisms_for("n", str(tmp_path), simulated("1xL4"), {}, lambda *_: None) == Mechanisms()


@pytest.mark.skipif(compiler() is None, reason="parts of the kit are built by a C compiler, and there is none")
def test_nvidias_gpus_get_all_there_is_each_still_to_be_proved(devices: NvmlDevices, tmp_path: Path) -> None:
    mechanisms = mechanisms_for("n", str(tmp_path), devices, {PLACE: str(tmp_path / "native")}, lambda *_: None)
    expected = ["cgroup device list", "private /dev"][os.geteuid() != 0 :]
    assert [mechanism.name for mechanism in mechanisms.device_isolation if mechanism.name in expected] == expected
    assert mechanisms.slices is not None
    assert (mechanisms.slices.name, [mechanism.name for mechanism in mechanisms.parts]) == (
        "MIG",
        ["memory limits of cgroups", "MPS", "preloaded cap"],
    )
    assert {name.rpartition("-")[0] for name in os.listdir(tmp_path / "native")} == {"memory_cap", "private_dev"}
    assert mechanisms.parts[2].prove() == "cooperative"


def test_as_root_every_fence_and_wall_is_proved_as_an_account_of_jobs_with_what_is_built_below_the_data_directory(
    devices: NvmlDevices, as_a_job: ProbeRun, tmp_path: Path
) -> None:
    mechanisms = mechanisms_for("n", str(tmp_path), devices, {}, lambda *_: None, as_a_job.account)
    assert {name.rpartition("-")[0] for name in os.listdir(tmp_path / "native")} == {"memory_cap", "private_dev"}
    assert mechanisms.parts[2].prove() == "cooperative"
    assert as_a_job.send(
        ("open", "/dev/null", "/dev/full"), {}, prefix=mechanisms.device_isolation[-1].build("", (), "").prefix
    ) in (
        [1, 0],
        [],
    )
    assert "Permission denied" not in as_a_job.message  # where users may not make namespaces it fails, and says that


def test_what_is_built_lies_where_the_operator_says(tmp_path: Path) -> None:
    assert native_place("/data", {PLACE: "/elsewhere", "HOME": "/root"}) == "/elsewhere"


def test_the_groups_of_a_node_are_below_the_one_that_it_is_in_where_that_is_shown(tmp_path: Path) -> None:
    mounts, own = tmp_path / "mounts", tmp_path / "own"
    mounts.write_text(f"proc /proc proc rw 0 0\ncgroup2 {tmp_path}/unified cgroup2 rw 0 0\n")
    own.write_text("3:cpu:/x\n0::/system.slice/headrace.service\n")
    assert unified_base("n", str(mounts), str(own)) == f"{tmp_path}/unified/headrace.n"
    inside = tmp_path / "unified/system.slice/headrace.service"
    inside.mkdir(parents=True)
    assert unified_base("n", str(mounts), str(own)) == f"{inside}/headrace.n"
    mounts.write_text("proc /proc proc rw 0 0\n")
    assert unified_base("n", str(mounts), str(own)) == ""
