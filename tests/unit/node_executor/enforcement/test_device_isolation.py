"""Walls around devices, tried on nodes that every machine has."""

from __future__ import annotations

import os
import subprocess

import pytest

from headrace.node_executor.enforcement import CannotEnclose
from headrace.node_executor.enforcement.device_isolation import (
    USUAL,
    CgroupDeviceList,
    IsolatedLaunch,
    NoDeviceNodeIsolation,
    PrivateDev,
    common_nodes,
    strongest,
)
from headrace.node_executor.enforcement.probe_run import ProbeRun

send = ProbeRun().send


def test_a_list_proves_itself_and_leaves_nothing(unified: str, as_a_job: ProbeRun) -> None:
    mechanism = CgroupDeviceList(unified, as_a_job)
    assert mechanism.prove()
    assert [name for name in os.listdir(unified) if name.startswith("probe")] == []


def test_where_jobs_run_as_root_and_can_leave_their_cgroup_a_list_does_not_prove_itself(unified: str) -> None:
    assert not CgroupDeviceList(unified).prove()
    assert [name for name in os.listdir(unified) if name.startswith("probe")] == []


def test_a_job_gets_the_usual_nodes_and_its_own_in_a_cgroup_made_for_it(unified: str) -> None:
    mechanism = CgroupDeviceList(unified)
    launch = mechanism.build("job.1.0", ("/dev/full", "/dev/nothing"), "")
    assert launch == IsolatedLaunch(f"{unified}/job.1.0")
    assert send(("open", "/dev/null", "/dev/full", "/dev/kmsg"), {}, launch.group)[:2] == [1, 1]
    mechanism.tear_down("job.1.0")
    mechanism.tear_down("job.1.0")
    assert not os.path.exists(launch.group)


def test_a_cgroup_that_the_job_has_already_is_used(unified: str) -> None:
    own = f"{unified}/own"
    os.mkdir(own)
    assert CgroupDeviceList(f"{unified}/elsewhere").build("job.1.0", (), own) == IsolatedLaunch("")
    assert send(("open", "/dev/null", "/dev/full"), {}, own) == [1, 0]
    os.rmdir(own)


def test_where_no_cgroup_can_be_made_it_does_not_prove_itself(tmp_path) -> None:
    mechanism = CgroupDeviceList(f"{tmp_path}/file/below")
    (tmp_path / "file").write_text("")
    assert not mechanism.prove()
    with pytest.raises(CannotEnclose, match="cgroup cannot be made"):
        mechanism.build("job", (), "")


def as_nobody(*command: str) -> subprocess.CompletedProcess[str]:
    """What an ordinary user would see."""
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", **user)


@pytest.fixture
def program(private_dev: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where every user may run it, on a machine on which ordinary users may make namespaces."""
    for folder in (*tmp_path_factory.getbasetemp().parents[:-2], tmp_path_factory.getbasetemp(), os.path.dirname(private_dev)):
        if os.stat(folder).st_uid == os.geteuid():
            os.chmod(folder, 0o755)
    if as_nobody(private_dev, "/dev/null", "--", "true").returncode == 125:
        pytest.skip("ordinary users may not make namespaces here")
    return private_dev


def test_an_ordinary_user_sees_a_dev_with_its_own_nodes_only_and_cannot_take_it_apart(program: str) -> None:
    launch = PrivateDev(program).build("job", ("/dev/full",), "")
    script = "ls /dev | tr '\\n' ' '; id -u; grep CapEff /proc/self/status; umount /dev; true > /dev/null && true < /dev/full && echo fine"
    done = as_nobody(*launch.prefix, "/bin/sh", "-c", script)
    listed, *rest = done.stdout.splitlines()
    *names, uid = listed.split()
    assert set(names) <= {
        "fd",
        "full",
        "null",
        "ptmx",
        "pts",
        "random",
        "shm",
        "stderr",
        "stdin",
        "stdout",
        "tty",
        "urandom",
        "zero",
    }
    assert {"full", "null"} <= set(names)
    assert (uid, rest) == (str(os.geteuid() or 65534), ["CapEff:\t0000000000000000", "fine"])


def test_not_even_from_a_namespace_of_its_own(program: str) -> None:
    launch = PrivateDev(program).build("job", (), "")
    again = as_nobody(*launch.prefix, "unshare", "-Urm", "/bin/sh", "-c", "umount /dev; ls /dev/full")
    assert (again.returncode != 0, again.stdout) == (True, "")


def test_it_tells_what_it_cannot_start_and_how_it_is_used(program: str) -> None:
    missing = as_nobody(program, "/dev/null", "--", "/no/such/program")
    assert (missing.returncode, "No such file" in missing.stderr) == (127, True)
    assert as_nobody(program, "/dev/null").returncode == 125


def test_the_first_that_proves_itself_is_taken_and_else_none_is(unified: str, as_a_job: ProbeRun) -> None:
    good = CgroupDeviceList(unified, as_a_job)
    assert strongest((CgroupDeviceList("/proc/nowhere"), good)) is good
    assert isinstance(strongest((CgroupDeviceList("/proc/nowhere"),)), NoDeviceNodeIsolation)
    assert NoDeviceNodeIsolation().build("job", ("/dev/null",), "/some/group") == IsolatedLaunch()


def test_the_nodes_of_fabrics_that_are_here_are_for_all_jobs(tmp_path) -> None:
    for name in ("uverbs1", "uverbs0"):
        (tmp_path / name).touch()
    assert common_nodes((f"{tmp_path}/uverbs*", f"{tmp_path}/none")) == (*USUAL, f"{tmp_path}/uverbs0", f"{tmp_path}/uverbs1")
