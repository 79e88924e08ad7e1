from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from headrace.node_executor.arguments import parse
from headrace.node_executor.containers import containers_of, keep_reconciling, reconcile
from headrace.node_executor.files.workspace import Workspace
from headrace.node_executor.reporting.journal import Open
from headrace.node_executor.runtimes.container import ContainerRuntime
from headrace.node_executor.runtimes.keeper_client import Spawner
from headrace.node_executor.runtimes.process import ProcessRuntime
from headrace.node_executor.system import native
from tests.mock_engine import Contained, Engine


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[ProcessRuntime]:
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    spawner = Spawner("", lock)
    yield ProcessRuntime(spawner, str(tmp_path / "kept"))
    spawner.close()
    os.close(lock)


@pytest.fixture
def engine(tmp_path: Path) -> Any:
    one = Engine(tmp_path / "engine.sock")
    yield one
    one.end()


def equipped(containers: ContainerRuntime | None, tmp_path: Path, *orders: Any) -> Any:
    journal = SimpleNamespace(open={order.lease: Open(order) for order in orders})
    return SimpleNamespace(containers=containers, journal=journal, workspace=Workspace(str(tmp_path / "data")))


async def test_without_an_engine_there_is_nothing_that_runs_containers_until_there_was_one_and_off_is_off(
    processes: ProcessRuntime, tmp_path: Path
) -> None:
    def found(engine: str, *words: str) -> bool:
        settings = parse(["run", "--data", str(tmp_path / "data"), "--name", "n", *words], {})
        return containers_of(settings, engine, processes) is not None

    are_available = [found(""), found("/run/engine.sock"), found(""), found("/run/engine.sock", "--containers", "off")]
    assert are_available == [False, True, True, False]


async def test_where_the_first_process_of_containers_cannot_be_built_that_is_said(
    processes: ProcessRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "COMPILERS", ("no-such-compiler",))
    with capture_logs() as logs:
        containers_of(parse(["run", "--data", str(tmp_path), "--name", "n"], {}), "/run/engine.sock", processes)
    assert [entry["log_level"] for entry in logs if entry["event"] == "no_container_init"] == ["warning"]


async def test_a_container_of_a_lease_that_is_over_is_removed_and_that_is_said(
    engine: Engine, processes: ProcessRuntime, tmp_path: Path, make_order
) -> None:
    containers = ContainerRuntime(processes, engine.socket, str(tmp_path / "containers"), owner="n:/data")
    equipment = equipped(containers, tmp_path, make_order())
    known = equipment.workspace.name(make_order())
    for name, owner in ((known, "n:/data"), ("old.1.0", "n:/data"), ("other.1.0", "m:/data")):
        labels = {"headrace.lease": name, "headrace.executor": owner}
        engine.containers[f"headrace-{name}"] = Contained({"Labels": labels}, ["true"])
    with capture_logs() as logs:
        await reconcile(equipment, containers)
        await reconcile(equipment, containers)
    assert sorted(engine.containers) == sorted([f"headrace-{known}", "headrace-other.1.0"])
    assert [entry["names"] for entry in logs if entry["event"] == "containers_removed"] == [["old.1.0"]]


async def test_while_the_engine_is_away_nothing_is_removed_and_it_is_looked_again(
    engine: Engine, processes: ProcessRuntime, tmp_path: Path
) -> None:
    containers = ContainerRuntime(processes, engine.socket, str(tmp_path / "containers"), owner="n:/data")
    labels = {"headrace.lease": "old.1.0", "headrace.executor": "n:/data"}
    engine.containers["headrace-old.1.0"] = Contained({"Labels": labels}, ["true"])
    engine.stop()
    looking = asyncio.ensure_future(keep_reconciling(equipped(containers, tmp_path), every=0.01))
    with capture_logs() as logs:
        while not any(entry["event"] == "containers_unseen" for entry in logs):
            await asyncio.sleep(0.01)
    assert list(engine.containers) == ["headrace-old.1.0"]
    engine.start()
    while engine.containers:
        await asyncio.sleep(0.01)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)


async def test_where_none_were_ever_run_there_is_nothing_to_look_for(tmp_path: Path) -> None:
    looking = asyncio.ensure_future(keep_reconciling(equipped(None, tmp_path), every=0.001))
    await asyncio.sleep(0.01)
    looking.cancel()
    assert [type(one) for one in await asyncio.gather(looking, return_exceptions=True)] == [asyncio.CancelledError]
