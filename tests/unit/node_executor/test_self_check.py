"""What a node finds when it checks itself; directories and programs are real, devices and control groups are not."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.contracts.facts.nodes import Device
from headrace.node_executor import self_check
from headrace.node_executor.files.workspace import Workspace
from headrace.node_executor.runtimes import CannotStart, End, Launch, RuntimeListener
from headrace.node_executor.self_check import SelfCheck, check
from tests.patience import PATIENCE


@dataclass
class Machine:
    """A node by its parts. `code`: how the program ends; None: it does not; an error: it does not start."""

    directory: str
    code: int | CannotStart | None = 0
    unfit: str = ""
    no_group: str = ""
    launched: list[Launch] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)

    def equipment(self) -> Any:
        return SimpleNamespace(
            workspace=Workspace(self.directory),
            devices=SimpleNamespace(inventory=lambda: (Device(device="gpu0", model="H100", memory=1, unfit=self.unfit),)),
            preparation=SimpleNamespace(make_group=self.make_group),
            runtime=SimpleNamespace(start=self.start, forget=self.forgotten.append),
            output_limit=1_000,
        )

    def spoil(self) -> None:
        """A file stands where the check makes its directory."""
        Path(self.directory, "self-check").touch()

    def make_group(self, _name: str) -> None:
        if self.no_group:
            raise CannotStart(self.no_group)

    def start(self, launch: Launch, listener: RuntimeListener) -> None:
        assert os.path.exists(os.path.join(launch.directory, "written"))
        self.launched.append(launch)
        if isinstance(self.code, CannotStart):
            listener.failed(self.code)
        elif self.code is not None:
            listener.ended(End(self.code, 1))


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(str(tmp_path))


async def test_a_node_in_order_finds_nothing_and_leaves_nothing_behind(machine) -> None:
    before = sorted(os.listdir(Workspace(machine.directory).data))
    assert await check(machine.equipment()) == ""
    assert [launch.command for launch in machine.launched] == [("true",)]
    assert (machine.forgotten, sorted(os.listdir(machine.directory))) == (["self-check"], before)


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        ({"code": 1}, "a program that does nothing ended with exit code 1"),
        ({"code": CannotStart("the node cannot start a process: no room")}, "the node cannot start a process: no room"),
        ({"code": None}, "a program that does nothing had not ended after 0.01 s"),
        ({"unfit": "it fell off the bus"}, "all of its devices are unfit: it fell off the bus"),
        ({"no_group": "the node cannot hold the job to its limits: no"}, "the node cannot hold the job to its limits: no"),
    ],
)
async def test_what_is_wrong_is_said_in_one_line(machine, monkeypatch, trouble, message) -> None:
    monkeypatch.setattr(self_check, "WITHIN", 0.01)
    for name, value in trouble.items():
        setattr(machine, name, value)
    assert await check(machine.equipment()) == message


async def test_a_directory_that_cannot_be_written_to_is_said(machine) -> None:
    machine.spoil()
    assert await check(machine.equipment()) == "the data directory cannot be written to: File exists"


async def test_what_was_found_is_told_and_one_check_is_enough_at_a_time(machine) -> None:
    results: list[str] = []
    checks = SelfCheck(machine.equipment(), results.append)
    checks.begin()
    checks.begin()
    async with asyncio.timeout(PATIENCE):
        while not results:
            await asyncio.sleep(0.001)
    assert (results, len(machine.launched)) == ([""], 1)
