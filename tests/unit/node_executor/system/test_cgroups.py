"""Which files are written where, on trees made by hand; that the kernel then does what they say is shown with real groups in
`tests/integration/test_node_bounds.py`."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from headrace.node_executor.system.cgroups import (
    CgroupEntry,
    Groups,
    LeaseGroup,
    Limits,
    group_name,
    group_of_process,
    killed_for_memory,
)

LIMITS = Limits(cpu=2_500, memory=64, pids=100)
MODERN = ("cpu.max", "memory.max", "memory.oom.group", "memory.swap.max", "pids.max", "cgroup.freeze", "cgroup.kill")
OLD = {"cpu": ("cpu.cfs_quota_us",), "memory": ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes"), "pids": ("pids.max",)}


def files(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).touch()
    return directory


def written(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir() if path.is_file() and path.read_text()}


@pytest.fixture
def modern(tmp_path) -> str:
    """Version 2 with everything in it, and ourselves in a service's group."""
    for path in (tmp_path, tmp_path / "service", tmp_path / "service" / "headrace.gpu01"):
        files(path, "cgroup.subtree_control")
        (path / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    return f"30 23 0:26 / {tmp_path} rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"


@pytest.fixture
def hybrid(tmp_path) -> str:
    lines = [f"30 23 0:26 / {files(tmp_path / 'unified')} rw - cgroup2 none rw"]
    lines += [f"31 23 0:27 / {files(tmp_path / name)} rw shared:5 - cgroup none rw,{name}" for name in OLD]
    return "\n".join(lines)


def test_limits_are_written_in_the_words_of_version_2(tmp_path, modern) -> None:
    groups = Groups("gpu01", modern, "0::/service\n")
    assert groups.missing == ()
    home = tmp_path / "service" / "headrace.gpu01"
    lease = files(home / "x.1.0", *MODERN)
    group = groups.group("x.1.0")
    group.make(LIMITS)
    assert written(lease) == {
        "cpu.max": "250000 100000",
        "memory.max": "67108864",
        "memory.oom.group": "1",
        "memory.swap.max": "0",
        "pids.max": "100",
    }
    assert group.place("job") == CgroupEntry(f"{lease}/job", f"{lease}/job/cgroup.kill", ())
    assert group.directory == str(lease)


def test_any_account_reads_a_group_although_the_executor_keeps_its_files_to_itself(tmp_path, modern) -> None:
    lease = tmp_path / "service" / "headrace.gpu02" / "x.1.0"
    before = os.umask(0o077)  # as the executor's unit sets it
    try:
        files(lease.parent, "cgroup.subtree_control")
        (lease.parent / "cgroup.controllers").write_text("cpu memory pids\n")
        group = Groups("gpu02", modern, "0::/service\n").group("x.1.0")
        files(lease, *MODERN)
        group.make(LIMITS)
        group.place("job")
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (lease.parent, lease, lease / "job")] == [0o755] * 3


def test_controllers_are_passed_down_from_the_top(tmp_path, modern) -> None:
    Groups("gpu01", modern, "0::/service\n")
    for path in (tmp_path, tmp_path / "service", tmp_path / "service" / "headrace.gpu01"):
        # a real one keeps them all; here each is written over the one before
        assert (path / "cgroup.subtree_control").read_text() == "+pidsry"


def test_an_executor_whose_own_group_is_outside_of_its_namespace_makes_its_group_at_the_top(tmp_path, modern) -> None:
    home = files(tmp_path / "headrace.gpu01", "cgroup.subtree_control")
    (home / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    assert Groups("gpu01", modern, "0::/../..\n").group("x.1.0").directory == f"{home}/x.1.0"


def test_on_a_hybrid_machine_limits_are_of_version_1_and_the_rest_of_version_2(tmp_path, hybrid) -> None:
    groups = Groups("gpu01", hybrid, "3:memory:/nowhere\n0::/\n")
    assert groups.missing == ()
    for name, names in OLD.items():
        files(tmp_path / name / "headrace.gpu01" / "x.1.0", *names)
    group = groups.group("x.1.0")
    group.make(LIMITS)
    assert written(tmp_path / "cpu" / "headrace.gpu01" / "x.1.0") == {"cpu.cfs_quota_us": "250000"}
    assert written(tmp_path / "pids" / "headrace.gpu01" / "x.1.0") == {"pids.max": "100"}
    assert written(tmp_path / "memory" / "headrace.gpu01" / "x.1.0") == {
        "memory.limit_in_bytes": "67108864",
        "memory.memsw.limit_in_bytes": "67108864",
    }
    unified = tmp_path / "unified" / "headrace.gpu01" / "x.1.0"
    assert group.place("abort") == CgroupEntry(
        f"{unified}/abort",
        f"{unified}/abort/cgroup.kill",
        tuple(f"{tmp_path}/{name}/headrace.gpu01/x.1.0/tasks" for name in ("cpu", "memory", "pids")),
    )


def test_what_is_not_asked_for_is_not_limited(tmp_path, modern) -> None:
    groups = Groups("gpu01", modern, "0::/service\n")
    lease = files(tmp_path / "service" / "headrace.gpu01" / "x.1.0", *MODERN)
    groups.group("x.1.0").make(Limits())
    assert written(lease) == {}


def test_a_group_is_frozen_thawed_and_killed_as_a_whole(tmp_path) -> None:
    lease = files(tmp_path / "x", *MODERN)
    group = LeaseGroup(str(lease), {}, modern=True)
    assert group.freeze()
    assert written(lease) == {"cgroup.freeze": "1"}
    assert group.is_still  # it is not known otherwise
    (lease / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    assert not group.is_still
    (lease / "cgroup.events").write_text("populated 1\nfrozen 1\n")
    assert group.is_still
    (lease / "cgroup.events").unlink()
    assert group.thaw()
    group.kill()
    assert written(lease) == {"cgroup.freeze": "0", "cgroup.kill": "1"}
    assert not LeaseGroup("", {"pids": str(tmp_path)}, modern=False).freeze()


def test_a_group_of_version_2_is_killed_for_memory_as_one_and_in_version_1_processes_are_counted(tmp_path) -> None:
    (tmp_path / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    modern = LeaseGroup("", {"memory": str(tmp_path)}, modern=True)
    assert (
        killed_for_memory(modern, {"memory": 64})
        == "out of memory: it used all of its 64 MiB of memory, and the kernel killed all of its processes"
    )
    old = LeaseGroup("", {"memory": str(tmp_path)}, modern=False)
    assert (
        killed_for_memory(old, {})
        == "out of memory: it used more memory than there was, and the kernel killed 1 of its processes"
    )
    assert killed_for_memory(LeaseGroup("", {}, modern=True), {"memory": 64}) == killed_for_memory(None, {}) == ""


def test_groups_of_unknown_leases_are_removed(tmp_path, hybrid) -> None:
    groups = Groups("gpu01", hybrid, "0::/")
    for name in ("unified", "cpu"):
        (tmp_path / name / "headrace.gpu01" / "old.1.0" / ("job" if name == "unified" else "")).mkdir(parents=True)
        (tmp_path / name / "headrace.gpu01" / "new.1.0").mkdir()
    assert groups.sweep({"new.1.0"}) == ["old.1.0"]
    assert [path.name for path in (tmp_path / "unified" / "headrace.gpu01").iterdir()] == ["new.1.0"]
    assert groups.group("new.1.0").remove()
    groups.close()
    assert not (tmp_path / "cpu" / "headrace.gpu01").exists()


def test_a_group_with_something_in_it_stays(tmp_path) -> None:
    files(tmp_path / "x", "in the way")
    assert not LeaseGroup(str(tmp_path / "x"), {}, modern=True).remove()


def test_where_there_are_no_groups_that_is_an_error_and_where_a_controller_lacks_it_is_said(tmp_path) -> None:
    with pytest.raises(OSError, match="no control groups are mounted") as error:
        Groups("gpu01", "22 1 0:20 / /proc rw - proc proc rw\n", "0::/\n")
    assert error.value.errno == errno.ENOENT
    for path in (tmp_path, tmp_path / "headrace.gpu01"):
        files(path, "cgroup.subtree_control")
        (path / "cgroup.controllers").write_text("cpu")
    assert Groups("gpu01", f"30 1 0:1 / {tmp_path} rw - cgroup2 none rw", "0::/").missing == ("memory", "pids")


def test_a_group_of_others_with_processes_in_it_stays_as_it_is_and_jobs_go_to_the_top(tmp_path, modern) -> None:
    (tmp_path / "service" / "cgroup.type").write_text("domain\n")
    (tmp_path / "service" / "cgroup.procs").write_text("4711\n")  # the kernel would make it threaded if it got +cpu
    own = files(tmp_path / "service" / "session", "cgroup.subtree_control", "cgroup.procs")
    (own / "cgroup.controllers").touch()
    home = files(tmp_path / "headrace.gpu01", "cgroup.subtree_control")
    (home / "cgroup.controllers").write_text("cpu memory pids\n")
    groups = Groups("gpu01", modern, "0::/service/session\n")
    assert (groups.missing, groups.group("x").directory) == ((), f"{home}/x")
    assert written(tmp_path / "service") == {
        "cgroup.type": "domain\n",
        "cgroup.procs": "4711\n",
        "cgroup.controllers": "cpuset cpu io memory pids\n",
    }
    assert not (own / "headrace.gpu01").exists()


def test_a_group_that_takes_no_processes_is_not_used(tmp_path) -> None:
    for path in (tmp_path, tmp_path / "headrace.gpu01"):
        files(path, "cgroup.subtree_control")
        (path / "cgroup.controllers").touch()
    (tmp_path / "headrace.gpu01" / "cgroup.type").write_text("domain invalid\n")
    with pytest.raises(OSError, match="no group for jobs can be made"):
        Groups("gpu01", f"30 1 0:1 / {tmp_path} rw - cgroup2 none rw", "0::/")


def test_an_executor_whose_group_is_below_a_threaded_one_places_its_jobs_at_the_top(unified: str) -> None:
    outer, mount = (
        Path(unified, "outer"),
        "/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup",
    )
    (outer / "threads").mkdir(parents=True)
    (outer / "threads" / "cgroup.type").write_text("threaded")
    own = outer / "other"
    own.mkdir()
    assert (own / "cgroup.type").read_text() == "domain invalid\n"
    groups = Groups("gpu01-threads", f"30 1 0:1 / {mount} rw - cgroup2 none rw", f"0::{own.as_posix().removeprefix(mount)}")
    group = groups.group("x.1.0")
    try:
        group.make(Limits())
        entry = group.place("job")
        with subprocess.Popen(["sleep", "600"]) as process:
            Path(entry.group, "cgroup.procs").write_text(str(process.pid))
            group.kill()
            assert process.wait() == -9
        assert (entry.group, not (own / "headrace.gpu01-threads").exists()) == (
            f"{mount}/headrace.gpu01-threads/x.1.0/job",
            True,
        )
    finally:
        group.sweep()
        group.remove()
        groups.close()
        for path in (own, outer / "threads", outer):
            path.rmdir()


def test_two_executors_of_one_name_keep_out_of_each_others_way(tmp_path) -> None:
    assert group_name("gpu01", str(tmp_path / "a")) != group_name("gpu01", str(tmp_path / "b"))
    assert group_name("gpu01", "/a/../a") == group_name("gpu01", "/a")


def test_the_group_of_a_process_is_found_if_it_is_the_one_that_was_meant(unified: str) -> None:
    lease = Path(unified, "libpod-abc")
    lease.mkdir()
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            (lease / "cgroup.procs").write_text(str(process.pid))
            found = group_of_process(process.pid, "abc")
            assert found is not None
            assert (found.directory, found.freeze()) == (str(lease), True)
            assert group_of_process(process.pid, "another") is None
        finally:
            process.kill()
    assert group_of_process(process.pid, "abc") is None
    lease.rmdir()
