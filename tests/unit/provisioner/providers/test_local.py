"""Instances as real processes; a small script stands in for the executor, so that only the provider is tested."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.provisioner.providers import Created, Listed, NotAuthorized, ProviderAway, Refusal, local
from headrace.provisioner.providers.local import LocalProvider, end_process, pid_of
from tests.unit.provisioner.providers.clouds import INSTALLATION, LocalScene, order_of, until


@pytest.fixture
async def provider(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalProvider]:
    scene = LocalScene(tmp_path)
    monkeypatch.setattr(local.sys, "executable", scene.executable)
    yield scene.provider
    await scene.close()


def faults(place: Path, **fields: object) -> None:
    (place / "local").mkdir(exist_ok=True)
    (place / "local/faults.json").write_text(json.dumps(fields))


def arguments_of(pid: int) -> bytes:
    """The command of a process; empty if it is gone, and for a moment while it becomes another program."""
    path = Path(f"/proc/{pid}/cmdline")
    return path.read_bytes() if path.exists() else b""


async def test_an_order_makes_one_process_however_often_it_is_repeated(provider: LocalProvider, tmp_path: Path) -> None:
    made = await provider.create(order_of())
    place = tmp_path / "local/cloud-1"
    pid = pid_of(place)
    assert isinstance(made, Created)
    assert (made.provider_id, pid > 1) == ("local/cloud-1", True)
    assert await provider.create(order_of()) == made
    assert pid_of(place) == pid
    assert await provider.list([""]) == [Listed("cloud-1", "local/cloud-1", made.at, runs=True)]
    await until(lambda: b"--devices\0sim:2xH100-80GB\0" in arguments_of(pid))


async def test_an_instance_is_ended_once_and_does_not_come_back(provider: LocalProvider, tmp_path: Path) -> None:
    made = await provider.create(order_of())
    await until((tmp_path / "ready").exists)
    pid, at = pid_of(tmp_path / "local/cloud-1"), await provider.end("cloud-1", "local/cloud-1", "")
    assert (await provider.end("cloud-1", "", ""), pid_of(tmp_path / "local/cloud-1")) == (at, 0)
    assert arguments_of(pid) == b""
    assert await provider.create(order_of()) == made
    assert [(one.instance, one.runs) for one in await provider.list([""])] == [("cloud-1", False)]


async def test_an_order_that_was_ended_before_it_was_made_makes_nothing(provider: LocalProvider, tmp_path: Path) -> None:
    await provider.end("cloud-1", "", "")
    await provider.create(order_of())
    assert pid_of(tmp_path / "local/cloud-1") == 0


async def test_the_same_name_by_another_order_is_refused(provider: LocalProvider) -> None:
    await provider.create(order_of())
    assert await provider.create(order_of(token="t2")) == Refusal("INVALID", "instance cloud-1 was made by another order")


async def test_a_process_that_died_is_listed_as_ended(provider: LocalProvider, tmp_path: Path) -> None:
    await provider.create(order_of())
    place = tmp_path / "local/cloud-1"
    os.kill(pid_of(place), 9)
    await until(lambda: not pid_of(place))
    assert [one.runs for one in await provider.list([""])] == [False]
    end_process(place)


async def test_a_machine_that_does_not_keep_jobs_apart_runs_none(tmp_path: Path) -> None:
    refusing = LocalProvider(tmp_path / "local", tmp_path / "nodes", INSTALLATION, "not here")
    assert await refusing.create(order_of()) == Refusal("INVALID", "not here")


async def test_the_switchboard_plays_faults(provider: LocalProvider, tmp_path: Path) -> None:
    faults(tmp_path, refuse={"east": "CAPACITY"}, prices={"east": 7})
    answer = await provider.create(order_of())
    assert isinstance(answer, Refusal)
    assert (answer.code, await provider.prices([])) == ("CAPACITY", {"east": 7})
    faults(tmp_path, lose_answers=True)
    with pytest.raises(ProviderAway):
        await provider.create(order_of())
    faults(tmp_path, empty_list=True)
    assert await provider.list([""]) == []
    faults(tmp_path, away=True)
    with pytest.raises(ProviderAway):
        await provider.list([""])
    faults(tmp_path, unauthorized=True)
    with pytest.raises(NotAuthorized):
        await provider.end("cloud-1", "", "")
    faults(tmp_path, unheard_of=True)
    with pytest.raises(ProviderAway, match=r"faults\.json"):
        await provider.list([""])
    (tmp_path / "local/faults.json").unlink()
    assert [(one.instance, one.runs) for one in await provider.list([""])] == [("cloud-1", True)]


async def test_other_devices_and_instances_that_die_at_once(provider: LocalProvider, tmp_path: Path) -> None:
    faults(tmp_path, devices="1xA100-40GB")
    await provider.create(order_of())
    await until(lambda: b"sim:1xA100-40GB" in arguments_of(pid_of(tmp_path / "local/cloud-1")))
    faults(tmp_path, dead=True)
    await provider.create(order_of("cloud-2"))
    await until(lambda: not pid_of(tmp_path / "local/cloud-2"))
    assert [one.runs for one in await provider.list([""]) if one.instance == "cloud-2"] == [False]
