from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.node_executor.enforcement.owners import MARK, LeaseOwners
from tests.patience import PATIENCE

LEASE = "acme.alice.j/1/0"


@pytest.fixture
def owners(tmp_path) -> LeaseOwners:
    found = LeaseOwners(f"{tmp_path}/leases")
    found.began(LEASE, f"{tmp_path}/leases/acme.alice.j.1.0")
    return found


def shell(*words: str, **more) -> Iterator[int]:
    """A shell whose child sleeps; the child's pid."""
    with subprocess.Popen(
        ["/bin/sh", "-c", *words], stdout=subprocess.PIPE, text=True, start_new_session=True, **more
    ) as process:
        assert process.stdout is not None
        try:
            child = int(process.stdout.readline())
            until = time.monotonic() + PATIENCE
            while "(sleep) S" not in Path(f"/proc/{child}/stat").read_text():  # before, it has yet to become what it is to be
                assert time.monotonic() < until
                time.sleep(0.01)
            yield child
        finally:
            os.killpg(process.pid, 9)


def test_a_process_is_its_forefathers_leases(owners: LeaseOwners, tmp_path) -> None:
    for child in shell("env -i sleep 600 & echo $!; wait"):
        assert owners.of(child) == ""
        parent = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
        owners.began(LEASE, f"{tmp_path}/leases/acme.alice.j.1.0", parent)
        assert owners.of(child) == LEASE
        owners.ended(LEASE)
        assert owners.of(child) == ""


def test_else_its_environment_tells(owners: LeaseOwners, tmp_path) -> None:
    environ = {"PATH": os.environ["PATH"], MARK: f"{tmp_path}/leases/acme.alice.j.1.0"}
    for child in shell("sleep 600 & echo $!; wait", env=environ):
        assert owners.of(child) == LEASE
    for child in shell("sleep 600 & echo $!; wait", env=environ | {MARK: f"{tmp_path}/leases/another"}):
        assert owners.of(child) == ""


def test_its_cgroup_tells_whatever_its_environment_says(owners: LeaseOwners, unified: str) -> None:
    group = f"{unified}/acme.alice.j.1.0"
    os.mkdir(group)
    for child in shell(f"echo $$ > {group}/cgroup.procs; exec env -i sh -c 'sleep 600 & echo $!; wait'"):
        assert owners.of(child) == LEASE
    while Path(group, "cgroup.procs").read_text():
        time.sleep(0.01)
    os.rmdir(group)


def test_a_stranger_and_one_that_is_gone_have_no_owner(owners: LeaseOwners) -> None:
    assert [owners.of(pid) for pid in (1, os.getpid(), 2**22 + 5)] == ["", "", ""]
