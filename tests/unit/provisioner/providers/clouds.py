"""The same scene for every provider: a provider, a switchboard of faults, and what really runs there."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import shutil
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
from headrace.provisioner.providers.ssh import SshProvider
from tests.simulation.cloud import TAG, SimulatedCloud
from tests.unit.provisioner.providers.faulty_ec2 import FaultyEc2
from tests.unit.provisioner.providers.ssh_server import SshServer

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


class SshScene:
    """Two machines, which are two directories behind one real SSH server of this machine."""

    def __init__(self, place: Path) -> None:
        self.place = place
        script = place / "bin"
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{ENDURING}" "$@" {place}/ready\n')
        script.chmod(0o700)
        self.server = SshServer(place / "sshd")
        self.machines = place / "burst/machines.yaml"
        self.machines.parent.mkdir()
        self.mend()
        self.provider = self.of(INSTALLATION)

    def of(self, installation: str) -> SshProvider:
        return SshProvider(self.machines.parent, installation)

    def write(self, **fields: Any) -> None:
        """The file of the provider, with what the test says otherwise of both machines."""
        machine = {"address": "127.0.0.1", "port": self.server.port, "user": getpass.getuser(), "type": OFFER.type} | fields
        known: dict[str, Any] = {"key": str(self.server.key), "known_hosts": str(self.server.known_hosts)}
        known |= {"program": str(self.place / "bin"), "wake_within": 60, "arguments": "--run-as self"}
        known["machines"] = [{"name": name, "directory": str(self.place / name)} | machine for name in ("gpu-1", "gpu-2")]
        self.machines.write_text(json.dumps(known))

    def refuse(self) -> None:
        for name in ("gpu-1", "gpu-2"):
            self.occupy(name)

    def occupy(self, machine: str) -> None:
        """This process has the machine, as the instance of another installation."""
        taken = self.place / machine / "other-1"
        taken.mkdir(parents=True, exist_ok=True)
        began = Path("/proc/self/stat").read_text("utf-8").rpartition(")")[2].split()[19]
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        (taken / "pid").write_text(f"{os.getpid()} {began} {boot}\n")
        tags = {"instance": "other-1", "installation": "inst-9", "token": "t", "pool": "p", "offer": "o", "created_at": 1}
        (taken / "order.json").write_text(json.dumps(tags))

    def lose_answers(self) -> None:
        (self.server.place / "lose").write_text("begin")

    def be_away(self) -> None:
        self.server.stop()

    def take_no_credentials(self) -> None:
        (self.server.place / "authorized").write_text("")

    def mend(self) -> None:
        self.server.start()
        self.server.accept_key()
        (self.server.place / "lose").unlink(missing_ok=True)
        for name in ("gpu-1", "gpu-2"):
            shutil.rmtree(self.place / name / "other-1", ignore_errors=True)
        self.write()

    def processes(self) -> dict[str, int]:
        """The pids of the instances that run, by name: of the process that keeps the executor running."""
        found = {}
        for path in self.place.glob("gpu-*/*/pid"):
            pid, began, _ = path.read_text("ascii").split()
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
                if stat[0] != "Z" and stat[19] == began and int(pid) != os.getpid():
                    found[path.parent.name] = int(pid)
        return found

    async def running(self) -> list[str]:
        return sorted(self.processes())

    async def die(self, name: str) -> None:
        os.killpg(self.processes()[name], 9)
        await until(lambda: name not in self.processes())

    async def close(self) -> None:
        for pid in self.processes().values():
            os.killpg(pid, 9)
        self.server.stop()


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
        self.provider.ended_at[name] = 7

    async def close(self) -> None:
        assert self.wrong == []
