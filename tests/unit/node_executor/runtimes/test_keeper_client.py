"""What is said on the wire; that it is understood at the other end is shown with real keepers, in both languages, in `test_process`."""

from __future__ import annotations

import pytest

from headrace.node_executor.runtimes.keeper import Job, read_job
from headrace.node_executor.runtimes.keeper_client import Order
from headrace.node_executor.system.c_programs import KEEPER

ORDER = Order(
    id="x.1.0",
    state="/kept/x.1.0",
    log="/logs/x",
    limit=1_000,
    directory="/work",
    command=("echo", "", "ä b"),
    env={"A": "1=2", "EMPTY": ""},
    uid=1000,
    gid=1001,
    group="/sys/fs/cgroup/x",
    kill="/sys/fs/cgroup/x/cgroup.kill",
    enter=("/a/tasks", "/b/tasks"),
    groups=(44, 109),
    prefix=("/wall", "--"),
    wait=500,
)


def test_an_order_arrives_as_it_was_given() -> None:
    payload = ORDER.encoded()
    assert int.from_bytes(payload[:4], "little") == len(payload) - 4
    assert read_job(payload[4:]) == Job(
        id="x.1.0",
        state="/kept/x.1.0",
        log="/logs/x",
        limit=1_000,
        directory="/work",
        wait=500,
        uid=1000,
        gid=1001,
        group="/sys/fs/cgroup/x",
        kill="/sys/fs/cgroup/x/cgroup.kill",
        enter=["/a/tasks", "/b/tasks"],
        groups=[44, 109],
        prefix=["/wall", "--"],
        arguments=["echo", "", "ä b"],
        environment=["A=1=2", "EMPTY="],
    )


@pytest.mark.parametrize("wrong", [{"command": ("a\0b",)}, {"env": {"A": "\0"}}, {"directory": "/\0"}])
def test_what_cannot_be_said_is_refused(wrong) -> None:
    with pytest.raises(ValueError, match="null byte"):
        ORDER._replace(**wrong).encoded()


def test_the_c_program_lies_beside_its_twin() -> None:
    with open(KEEPER, encoding="utf-8") as file:
        assert "keeper.py" in file.read()
