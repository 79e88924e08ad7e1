"""The list of device nodes, against the kernel of this machine where it lets us."""

from __future__ import annotations

import os
import subprocess

import pytest

from headrace.node_executor.enforcement.bpf import DeviceRule, attach, node_of, program


def test_a_node_is_known_by_its_numbers_and_invalid_ones_are_ignored(tmp_path) -> None:
    assert (node_of("/dev/null"), node_of("/dev/nothing"), node_of(str(tmp_path))) == (DeviceRule(1, 3), None, None)


def test_each_line_of_the_list_is_a_few_instructions() -> None:
    nothing = len(program(()))
    assert nothing % 8 == 0
    assert len(program([DeviceRule(1, 3)])) - nothing == 8 * 5
    assert len(program([DeviceRule(136, None)])) - nothing == 8 * 4
    assert program([DeviceRule(1, 3), DeviceRule(1, 5)]) == program([DeviceRule(1, 5), DeviceRule(1, 3), DeviceRule(1, 3)])


@pytest.fixture
def group(unified: str):
    path = f"{unified}/bpf"
    os.mkdir(path)
    yield path
    os.rmdir(path)


def opened(group: str, *paths: str) -> list[bool]:
    """Which of these a process in the cgroup may open."""
    script = f'echo $$ > {group}/cgroup.procs; for p in "$@"; do if true < "$p"; then echo 1; else echo 0; fi; done'
    done = subprocess.run(["/bin/sh", "-c", script, "sh", *paths], capture_output=True, text=True, check=True)
    return [line == "1" for line in done.stdout.split()]


def test_processes_in_the_cgroup_open_what_is_on_the_list_and_nothing_else(group: str) -> None:
    attach(group, [DeviceRule(1, 3), DeviceRule(1, 9)])
    assert opened(group, "/dev/null", "/dev/urandom", "/dev/zero", "/dev/full") == [True, True, False, False]


def test_a_line_may_stand_for_all_minor_numbers(group: str) -> None:
    attach(group, [DeviceRule(1, None)])
    assert opened(group, "/dev/null", "/dev/zero", "/dev/full") == [True, True, True]


def test_nodes_that_are_not_on_the_list_cannot_be_made_either(group: str, tmp_path) -> None:
    attach(group, [DeviceRule(1, 3)])
    script = f"echo $$ > {group}/cgroup.procs; mknod {tmp_path}/zero c 1 5; mknod {tmp_path}/null c 1 3"
    subprocess.run(["/bin/sh", "-c", script], capture_output=True, check=False)
    assert [(tmp_path / name).exists() for name in ("zero", "null")] == [False, True]


def test_where_there_is_no_such_cgroup_it_is_an_error(tmp_path) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - which one depends on the kernel
        attach(str(tmp_path), [DeviceRule(1, 3)])
