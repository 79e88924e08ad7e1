"""What every provider does (docs/providers.md): the same tests over processes of this machine, EC2, machines with an SSH server,
and the cloud of the simulation."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.provisioner.providers import Created, Machine, NotAuthorized, OfferAsked, ProviderAway, Refusal, local
from tests.unit.provisioner.providers.clouds import (
    IMAGE,
    OFFER,
    REGION,
    Ec2Scene,
    LocalScene,
    SimulatedScene,
    SshScene,
    order_of,
)
from tests.unit.provisioner.providers.ssh_server import SSHD

WITH_FAULTS = (LocalScene, Ec2Scene, SshScene)
Faulty = LocalScene | Ec2Scene | SshScene
Scene = Faulty | SimulatedScene


@contextlib.asynccontextmanager
async def opened(kind: type[Scene], place: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    if kind is SshScene and not SSHD.exists():
        pytest.skip(f"{SSHD} is missing")
    made = kind(place)
    if isinstance(made, LocalScene):
        monkeypatch.setattr(local.sys, "executable", made.executable)
    yield made
    await made.close()


@pytest.fixture(params=[*WITH_FAULTS, SimulatedScene], ids=["local", "ec2", "ssh", "simulated"])
async def scene(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    async with opened(request.param, tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture(params=WITH_FAULTS, ids=["local", "ec2", "ssh"])
async def faulty(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """Those whose faults are switched on; the faults of the simulation come by chance (tests/simulation)."""
    async with opened(request.param, tmp_path, monkeypatch) as made:
        yield made


async def shown(scene: Scene) -> dict[str, bool]:
    return {one.instance: one.runs for one in await scene.provider.list([REGION])}


async def checked(scene: Scene) -> str:
    """What a check says of an order that was not made."""
    try:
        return (await scene.provider.check([OfferAsked(OFFER, Machine(image=IMAGE))])).get(OFFER.name, "")
    except ProviderAway as error:
        return str(error)


async def test_an_order_makes_one_instance_however_often_it_is_repeated(scene: Scene) -> None:
    made = await scene.provider.create(order_of())
    assert isinstance(made, Created)
    assert await scene.provider.create(order_of()) == made
    (one,) = await scene.provider.list([REGION])
    assert (one.instance, one.provider_id, one.created_at, one.runs) == ("cloud-1", made.provider_id, made.at, True)
    assert await scene.running() == ["cloud-1"]


async def test_an_instance_that_was_ended_does_not_come_back(scene: Scene) -> None:
    made = await scene.provider.create(order_of())
    assert isinstance(made, Created)
    await scene.provider.create(order_of("cloud-2"))
    at = await scene.provider.end("cloud-1", made.provider_id, REGION)
    assert at >= made.at
    again = await scene.provider.end("cloud-1", made.provider_id, REGION)
    (gone,) = [one for one in await scene.provider.list([REGION]) if one.instance == "cloud-1"]
    earliest, latest = made.at - 1_000_000, time.time_ns() // 1_000  # EC2 notes whole seconds, and answers some time after
    assert earliest <= again <= latest
    assert gone.ended_at == 0 or earliest <= gone.ended_at <= at, "0: it does not say"
    assert await scene.provider.create(order_of()) == made
    assert (await scene.running(), (await shown(scene)).get("cloud-1", False)) == (["cloud-2"], False)


async def test_an_instance_that_died_is_not_shown_as_running(scene: Scene) -> None:
    await scene.provider.create(order_of())
    await scene.die("cloud-1")
    assert (await shown(scene)).get("cloud-1", False) is False


async def test_an_instance_that_is_not_there_has_ended(scene: Scene) -> None:
    assert await scene.provider.end("cloud-2", "", REGION) > 0


async def test_instances_of_another_installation_are_not_shown(scene: Scene) -> None:
    await scene.provider.create(order_of())
    assert list(await scene.of("inst-2").list([REGION])) == []


async def test_an_order_whose_answer_was_lost_is_found_by_its_token(faulty: Faulty) -> None:
    faulty.lose_answers()
    with pytest.raises(ProviderAway):
        await faulty.provider.create(order_of())
    faulty.mend()
    assert await faulty.running() == ["cloud-1"]
    made = await faulty.provider.create(order_of())
    assert isinstance(made, Created)
    assert await faulty.running() == ["cloud-1"]


async def test_an_order_whose_answer_was_lost_is_ended_by_its_name(faulty: Faulty) -> None:
    faulty.lose_answers()
    with pytest.raises(ProviderAway):
        await faulty.provider.create(order_of())
    faulty.mend()
    await faulty.provider.end("cloud-1", "", REGION)
    assert await faulty.running() == []


async def test_what_is_sold_out_is_refused_and_not_made(faulty: Faulty) -> None:
    faulty.refuse()
    refused = await faulty.provider.create(order_of())
    assert isinstance(refused, Refusal)
    assert (refused.code, await faulty.running()) == ("CAPACITY", [])
    faulty.mend()
    assert isinstance(await faulty.provider.create(order_of()), Created)


async def test_without_an_answer_nothing_is_concluded(faulty: Faulty) -> None:
    made = await faulty.provider.create(order_of())
    assert isinstance(made, Created)
    faulty.be_away()
    for call in (
        faulty.provider.create(order_of("cloud-2")),
        faulty.provider.end("cloud-1", made.provider_id, REGION),
        faulty.provider.list([REGION]),
    ):
        with pytest.raises(ProviderAway):
            await call
    faulty.mend()
    assert await faulty.running() == ["cloud-1"]


async def test_credentials_that_are_refused_are_said_so(faulty: Faulty) -> None:
    faulty.take_no_credentials()
    for call in (
        faulty.provider.create(order_of()),
        faulty.provider.end("cloud-1", "", REGION),
        faulty.provider.list([REGION]),
    ):
        with pytest.raises(NotAuthorized):
            await call
    faulty.mend()
    assert await faulty.running() == []


async def test_a_check_makes_nothing(scene: Scene) -> None:
    assert (await checked(scene), await scene.running()) == ("", [])


async def test_a_check_says_when_credentials_are_refused_or_nothing_answers(faulty: Faulty) -> None:
    for trouble in (faulty.take_no_credentials, faulty.be_away):
        trouble()
        assert await checked(faulty)
        faulty.mend()
    assert await checked(faulty) == ""


async def test_without_a_login_nothing_is_made(faulty: Faulty) -> None:
    with pytest.raises(ProviderAway, match="no login"):
        await faulty.provider.create(order_of(environment={}))
    assert await faulty.running() == []
