"""The same scene for every provider: a provider, a switchboard of faults, and what really runs there."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from headrace.contracts.documents.model import BurstNode, Offer
from headrace.provisioner.providers import Machine, Order
from headrace.provisioner.providers.ec2 import Ec2Provider
from headrace.provisioner.providers.local import LocalProvider, end_all, pid_of
from tests.simulation.cloud import TAG, SimulatedCloud
from tests.unit.provisioner.providers.faulty_ec2 import FaultyEc2

ENDURING = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); open(sys.argv[-1], 'w'); time.sleep(600)"
)
INSTALLATION, REGION = "inst-1", "us-east-1"
OFFER = Offer(name="east", type="p4d.24xlarge", region=REGION, zone="us-east-1b")
IMAGE = "ami-12c6146b"


def order_of(name: str = "cloud-1", **fields: Any) -> Order:
    """An order of an instance, with what the test says otherwise."""
    order: dict[str, Any] = {
        "instance": name,
        "token": f"token-{name}",
        "installation": INSTALLATION,
        "pool": "cloud",
        "offer": OFFER,
        "node": BurstNode(gpus=2, gpu_model="H100-80GB"),
        "environment": {"HEADRACE_NATS_PASSWORD": "a b"},
        "arguments": ("run", "--name", name),
        "machine": Machine(image=IMAGE),
        "ends_within": 480,
    }
    return Order(**order | fields)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


class LocalScene:
    """Processes of this machine; a small program stands in for the executor."""

    def __init__(self, place: Path) -> None:
        script = place / "bin"
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{ENDURING}" "$@" {place}/ready\n')
        script.chmod(0o700)
        self.executable = str(script)
        self.place = place
        self.provider = self.of(INSTALLATION)

    def of(self, installation: str) -> LocalProvider:
        return LocalProvider(self.place / "local", self.place / "nodes", installation)

    def fault(self, **faults: object) -> None:
        (self.place / "local").mkdir(exist_ok=True)
        (self.place / "local/faults.json").write_text(json.dumps(faults))

    def refuse(self) -> None:
        self.fault(refuse={"*": "CAPACITY"})

    def lose_answers(self) -> None:
        self.fault(lose_answers=True)

    def be_away(self) -> None:
        self.fault(away=True)

    def take_no_credentials(self) -> None:
        self.fault(unauthorized=True)

    def mend(self) -> None:
        self.fault()

    async def running(self) -> list[str]:
        return sorted(place.parent.name for place in self.place.glob("local/*/pid") if pid_of(place.parent))

    async def die(self, name: str) -> None:
        os.kill(pid_of(self.place / "local" / name), 9)
        await until(lambda: not pid_of(self.place / "local" / name))

    async def close(self) -> None:
        await asyncio.to_thread(end_all, self.place / "local")


class Ec2Scene:
    """moto behind what moto lacks."""

    def __init__(self, _place: Path) -> None:
        self.server = FaultyEc2()
        self.provider = self.of(INSTALLATION)

    def of(self, installation: str) -> Ec2Provider:
        return Ec2Provider(installation, self.server.client)

    def refuse(self) -> None:
        self.server.sold_out = {("", OFFER.type)}

    def lose_answers(self) -> None:
        self.server.lost = {"RunInstances"}

    def be_away(self) -> None:
        self.server.throttled = 1_000

    def take_no_credentials(self) -> None:
        calls = ("RunInstances", "DescribeInstances", "TerminateInstances")
        self.server.answers = dict.fromkeys(calls, "ExpiredToken")

    def mend(self) -> None:
        self.server.mend()

    async def running(self) -> list[str]:
        shown = await asyncio.to_thread(self.server.instances)
        tags = [{tag["Key"]: tag["Value"] for tag in one["Tags"]} for one in shown if one["State"]["Name"] == "running"]
        return sorted(one["headrace:instance"] for one in tags)

    async def die(self, name: str) -> None:
        for one in await asyncio.to_thread(self.server.instances):
            if {"Key": "headrace:instance", "Value": name} in one["Tags"]:
                await asyncio.to_thread(self.server.client(REGION).terminate_instances, InstanceIds=[one["InstanceId"]])

    async def close(self) -> None:
        self.server.close()
        self.reset()

    @staticmethod
    def reset() -> None:
        from moto.ec2 import ec2_backends

        ec2_backends.reset()


class SimulatedScene:
    """The cloud of the simulation, with what it looks at of its world; its faults are switched on by probability."""

    def __init__(self, _place: Path) -> None:
        document = SimpleNamespace(selector={})
        pools = {"cloud": SimpleNamespace(document=document)}
        state = SimpleNamespace(pools=pools, nodes={}, instances=dict.fromkeys(("cloud-1", "cloud-2")))
        self.wrong: list[str] = []
        self.world = SimpleNamespace(
            watch=SimpleNamespace(state=state, wrong=self.wrong.append),
            loop=SimpleNamespace(time=lambda: 0.0, call_later=lambda *_, **__: None),
            plan=SimpleNamespace(until=0),
            network=SimpleNamespace(clock=lambda: 7),
            counts=Counter(),
            outside=None,
            machines={},
            alive=lambda _name: None,
        )
        self.provider = SimulatedCloud(self.world, 1)

    def of(self, installation: str) -> SimulatedCloud:
        return self.provider if installation == TAG else SimulatedCloud(self.world, 2)

    async def running(self) -> list[str]:
        return sorted(self.provider.there)

    async def die(self, name: str) -> None:
        self.provider.there.discard(name)

    async def close(self) -> None:
        assert self.wrong == []
