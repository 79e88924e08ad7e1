"""What provider `ssh` does on machines with a real SSH server: waking, sleeping, restarting, and what it does not believe."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.provisioner.providers import Created, Machine, NotAuthorized, NotYet, OfferAsked, ProviderAway, Refusal
from headrace.provisioner.providers import ssh as provider
from tests.unit.provisioner.providers.clouds import OFFER, REGION, SshScene, order_of, until
from tests.unit.provisioner.providers.ssh_server import SSHD

pytestmark = pytest.mark.skipif(not SSHD.exists(), reason=f"{SSHD} is missing")


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[SshScene]:
    made = SshScene(tmp_path)
    yield made
    await made.close()


async def test_each_machine_has_one_instance_and_the_next_order_gets_the_next_machine(scene: SshScene) -> None:
    first, second = await scene.provider.create(order_of()), await scene.provider.create(order_of("cloud-2"))
    assert isinstance(first, Created)
    assert isinstance(second, Created)
    assert (first.provider_id, second.provider_id) == ("ssh/gpu-1", "ssh/gpu-2")
    refused = await scene.provider.create(order_of("cloud-3"))
    assert refused == Refusal("CAPACITY", "gpu-1 has cloud-1; gpu-2 has cloud-2")
    await scene.provider.end("cloud-1", first.provider_id, REGION)
    third = await scene.provider.create(order_of("cloud-3"))
    assert isinstance(third, Created)
    assert third.provider_id == "ssh/gpu-1"


async def test_orders_at_the_same_time_get_different_machines(scene: SshScene) -> None:
    made = await asyncio.gather(*(scene.provider.create(order_of(f"cloud-{number}")) for number in (1, 2, 3)))
    assert sorted(one.provider_id for one in made if isinstance(one, Created)) == ["ssh/gpu-1", "ssh/gpu-2"]
    assert [one.code for one in made if isinstance(one, Refusal)] == ["CAPACITY"]
    assert len(await scene.running()) == 2


async def test_an_offer_gets_machines_of_its_type_only(scene: SshScene) -> None:
    scene.write(type="h100")
    refused = await scene.provider.create(order_of())
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.message.endswith(f"lists no machine of type {OFFER.type!r}")) == ("INVALID", True)


async def test_a_machine_that_sleeps_is_woken_and_gets_the_instance_when_it_answers(scene: SshScene) -> None:
    woken = scene.place / "woken"
    scene.be_away()
    scene.write(wake=f"touch {woken}")
    with pytest.raises(NotYet, match="gpu-1 is waking"):
        await scene.provider.create(order_of())
    assert woken.exists()
    with pytest.raises(NotYet, match="gpu-2 is waking"):
        await scene.provider.create(order_of("cloud-2"))
    scene.server.start()
    made = await scene.provider.create(order_of("cloud-2"))
    assert isinstance(made, Created)
    assert made.provider_id == "ssh/gpu-2"


async def test_a_machine_that_does_not_wake_in_time_is_passed_over(scene: SshScene) -> None:
    scene.be_away()
    scene.write(wake="true")
    known = json.loads(scene.machines.read_text())
    scene.machines.write_text(json.dumps(known | {"wake_within": 0}))
    for machine in ("gpu-1", "gpu-2"):
        with pytest.raises(NotYet, match=machine):
            await scene.provider.create(order_of())
    refused = await scene.provider.create(order_of())
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.message.count("does not answer")) == ("CAPACITY", 2)


async def test_a_machine_that_cannot_be_woken_is_said_so(scene: SshScene) -> None:
    scene.be_away()
    scene.write(wake="sh -c 'echo no power >&2; exit 3'")
    with pytest.raises(ProviderAway, match="gpu-1: wake: no power"):
        await scene.provider.create(order_of())
    scene.write(wake="/nowhere/wake")
    with pytest.raises(ProviderAway, match="/nowhere/wake"):
        await scene.provider.create(order_of())


async def test_a_machine_goes_to_sleep_when_its_instance_has_ended(scene: SshScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider.on_machine, "SLEEP_AFTER", 0)
    asleep = scene.place / "asleep"
    scene.write(sleep=f"touch {asleep}")
    made = await scene.provider.create(order_of())
    assert isinstance(made, Created)
    await scene.provider.end("cloud-1", made.provider_id, REGION)
    await until(asleep.exists)


async def test_a_machine_goes_to_sleep_when_its_executor_has_ended_by_itself(
    scene: SshScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider.on_machine, "SLEEP_AFTER", 0)
    asleep = scene.place / "asleep"
    scene.write(sleep=f"touch {asleep}", program="true")
    await scene.provider.create(order_of())
    await until(asleep.exists)
    (one,) = await scene.provider.list([REGION])
    assert (one.instance, one.runs) == ("cloud-1", False)


async def test_a_machine_that_was_woken_in_vain_goes_to_sleep(scene: SshScene) -> None:
    asleep = scene.place / "asleep"
    scene.be_away()
    scene.write(wake="true", sleep=f"touch {asleep}")
    with pytest.raises(NotYet):
        await scene.provider.create(order_of())
    await scene.provider.end("cloud-1", "", REGION)
    scene.server.start()
    assert list(await scene.provider.list([REGION])) == []
    await until(asleep.exists)
    with pytest.raises(ProviderAway, match="it is to end"):
        await scene.provider.create(order_of())


async def test_an_executor_that_fails_is_started_again(scene: SshScene) -> None:
    tried = scene.place / "tried"
    scene.write(program=f"sh -c '[ -e {tried} ] && exec {scene.place}/bin; touch {tried}; exit 1' run")
    await scene.provider.create(order_of())
    await until((scene.place / "ready").exists)
    assert await scene.running() == ["cloud-1"]


async def test_the_executor_gets_its_arguments_and_its_login(scene: SshScene) -> None:
    written = scene.place / "written"
    program = scene.place / "show"
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$HEADRACE_NATS_PASSWORD" "$@" > {written}.new; mv {written}.new {written}\n'
    )
    program.chmod(0o700)
    scene.write(program=f"{program} node", arguments="--devices 'sim:2 x'")
    await scene.provider.create(order_of(arguments=("run", "--labels", "a=b c")))
    await until(written.exists)
    data = f"{scene.place}/gpu-1/cloud-1/node"
    assert written.read_text().splitlines() == [
        *("a b", "node", "run", "--labels", "a=b c", "--data", data, "--devices", "sim:2 x")
    ]


async def test_another_process_with_the_number_of_an_instance_is_not_taken_for_it(scene: SshScene) -> None:
    made = await scene.provider.create(order_of())
    assert isinstance(made, Created)
    pid, began, boot = (scene.place / "gpu-1/cloud-1/pid").read_text().split()
    await scene.die("cloud-1")
    for stale in (f"{os.getpid()} {began} {boot}", f"{pid} {began} 0-0"):
        (scene.place / "gpu-1/cloud-1/pid").write_text(stale + "\n")
        assert [one.runs for one in await scene.provider.list([REGION])] == [False]
        await scene.provider.end("cloud-1", made.provider_id, REGION)


async def test_while_a_machine_with_an_instance_is_silent_no_list_says_that_it_ended(
    scene: SshScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.provider.create(order_of())
    scene.be_away()
    with pytest.raises(ProviderAway, match="gpu-1 does not answer"):
        await scene.provider.list([REGION])
    monkeypatch.setattr(provider, "SILENT_AFTER", 0.0)
    assert list(await scene.provider.list([REGION])) == []


async def test_a_list_without_the_machines_that_sleep_is_complete(scene: SshScene) -> None:
    scene.be_away()
    assert list(await scene.provider.list([REGION])) == []


async def test_a_machine_with_another_key_than_known_is_not_believed(scene: SshScene) -> None:
    scene.server.be_known_by("client")
    with pytest.raises(NotAuthorized, match="gpu-1: .*known_hosts"):
        await scene.provider.create(order_of())
    assert await scene.running() == []


async def test_a_check_names_what_is_missing_on_each_machine(scene: SshScene) -> None:
    offers = [OfferAsked(OFFER, Machine())]
    assert await scene.provider.check(offers) == {"east": ""}
    scene.write(program="/nowhere/headrace node")
    lacks = "/nowhere/headrace is missing"
    assert await scene.provider.check(offers) == {"east": f"gpu-1: {lacks}; gpu-2: {lacks}"}
    scene.write(type="other")
    assert await scene.provider.check(offers) == {"east": f"{scene.machines} lists no machine of its type"}
    scene.write()
    scene.be_away()
    (problem,) = (await scene.provider.check(offers)).values()
    assert problem.count("does not answer") == 2
    scene.write(wake="true")
    assert await scene.provider.check(offers) == {"east": ""}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("machines: [", "malformed YAML"),
        ("{key: k, known_hosts: h, machines: [{name: a, port: b}]}", "$.machines[0].port"),
        ("{key: k, known_hosts: h, machines: [{name: a}, {name: a}]}", "two machines are named 'a'"),
        ("{known_hosts: h, machines: []}", "missing required field `key`"),
    ],
)
async def test_a_file_that_cannot_be_used_is_named_with_what_is_wrong(scene: SshScene, text: str, wrong: str) -> None:
    scene.machines.write_text(text)
    with pytest.raises(ProviderAway) as raised:
        await scene.provider.list([REGION])
    assert (str(raised.value).startswith(f"{scene.machines}: "), wrong in str(raised.value)) == (True, True)
    scene.machines.unlink()
    with pytest.raises(ProviderAway, match="missing; list the machines there"):
        await scene.provider.list([REGION])


async def test_a_key_that_cannot_be_read_is_named(scene: SshScene) -> None:
    known = json.loads(scene.machines.read_text())
    scene.machines.write_text(json.dumps(known | {"key": str(scene.place / "no key")}))
    with pytest.raises(ProviderAway, match="no key"):
        await scene.provider.list([REGION])


async def test_accounts_of_jobs_can_pass_through_the_directories_of_an_instance_and_read_nothing_there(scene: SshScene) -> None:
    await scene.provider.create(order_of())
    place = scene.place / "gpu-1/cloud-1"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (place.parent, place, *place.iterdir())}
    assert modes == {"gpu-1": 0o711, "cloud-1": 0o711} | dict.fromkeys(("order.json", "run", "pid", "log"), 0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs jobs as others")
async def test_a_check_names_a_directory_through_which_accounts_of_jobs_cannot_pass(scene: SshScene) -> None:
    scene.place.chmod(0o700)
    scene.write(arguments="--limits off")
    offers = [OfferAsked(OFFER, Machine())]
    closed = f"{scene.place} is closed to accounts of jobs"
    assert await scene.provider.check(offers) == {"east": f"gpu-1: {closed}; gpu-2: {closed}"}
    with tempfile.TemporaryDirectory() as open_to_all:
        os.chmod(open_to_all, 0o711)
        scene.write(arguments="--limits off", directory=f"{open_to_all}/instances")
        assert await scene.provider.check(offers) == {"east": ""}
