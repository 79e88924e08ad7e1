"""Two clouds for `burst`: what their own records say, apart from anything that the installation believes.

`LocalCloud` reads the directories of provider `local`. `Ec2Cloud` is moto behind a proxy with faults. For each of its instances a
machine is played, a node executor that is started by the instance's user data: it is cut off when the instance ends, and ends the
instance when it stops.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil

from headrace.provisioner.providers.local import pid_of
from tests.unit.provisioner.providers.faulty_ec2 import FaultyEc2

MACHINES_EVERY = 0.2
SHAKEN_EVERY = 1.0
JOB = "burst-job.sh"
"""Name of the script that jobs run, by which their processes are found."""


class Bill(NamedTuple):
    """One instance by the record of its provider: microseconds since 1970; `ended` is 0 while it runs. `name`: the one of its order."""

    name: str
    began: int
    ended: int


class LocalCloud:
    """The instances below the directory of provider `local`."""

    def __init__(self, data: Path) -> None:
        self._place = data / "burst/local"

    def bills(self) -> list[Bill]:
        """Every instance that was ever made."""
        return [
            Bill(place.parent.name, int(msgspec.json.decode(place.read_bytes())["created_at"]), self._ended(place.parent))
            for place in sorted(self._place.glob("*/order.json"))
        ]

    @staticmethod
    def _ended(place: Path) -> int:
        """When it has ended; 1 if its process is gone, and the time was not noted."""
        if (place / "ended").exists():
            return int((place / "ended").read_text())
        return 0 if pid_of(place) else 1

    def running(self) -> set[str]:
        """Instances with a process."""
        return {place.parent.name for place in self._place.glob("*/pid") if pid_of(place.parent)}

    def processes(self) -> Counter[str]:
        """Executors that run now, by instance, as the kernel lists them."""
        found: Counter[str] = Counter()
        for process in psutil.process_iter(["cmdline", "ppid"]):
            words = process.info["cmdline"] or []
            if "headrace.node_executor" in words and "--data" in words and "run" in words:
                data = Path(words[words.index("--data") + 1])
                if data.parent == self._place.parents[1] / "nodes" and data.name not in ("", "chaos"):
                    found[data.name] += 1
        return found

    def take_back(self, name: str, deadline: int) -> None:
        """The notice that an instance is taken back, as the provider's machine shows it."""
        path = self._place / name / "notice.json"
        path.with_suffix(".new").write_bytes(msgspec.json.encode({"kind": "spot", "deadline": deadline}))
        path.with_suffix(".new").rename(path)


class _Machine(NamedTuple):
    name: str
    process: subprocess.Popen[bytes]


class _Server(FaultyEc2):
    """Says before what it was asked for is carried out, and after."""

    def __init__(self, before: Callable[[str, str], None], after: Callable[[str], None]) -> None:
        self._before, self._after = before, after
        super().__init__()

    def pass_on(self, environ: dict[str, Any], body: bytes, start: Callable[..., Any]) -> list[bytes]:
        action = re.search(rb"Action=(\w+)", body)
        name = action[1].decode() if action is not None else ""
        self._before(name, body.decode())
        answer = super().pass_on(environ, body, start)
        self._after(name)
        return answer


class Ec2Cloud:
    """`killed_in_calls`: how often `kill` was called right after an instance was made or ended; `wrong`: what must never be."""

    def __init__(self, folder: Path, chance: random.Random, kill: Callable[[], bool]) -> None:
        self._folder = folder
        self._chance = chance
        self._kill = kill
        self.wrong: list[str] = []
        self.killed_in_calls = 0
        self.faulty = False
        self._machines: dict[str, _Machine] = {}
        self._self_ended: set[str] = set()
        self._stop = threading.Event()
        self.server = _Server(self._look, self._strike)
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._keep_machines, self._keep_shaking)]
        for thread in self._threads:
            thread.start()

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which boto3 comes here."""
        keys = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s", "AWS_EC2_METADATA_DISABLED": "true"}
        return keys | {"AWS_ENDPOINT_URL_EC2": self.server.address, "AWS_DEFAULT_REGION": "us-east-1"}

    def _instances(self) -> list[Any]:
        """All of moto, past the proxy."""
        from moto.ec2 import ec2_backends

        return [one for account in ec2_backends.values() for one in account["us-east-1"].all_instances()]

    def bills(self) -> list[Bill]:
        """Every instance that was ever made."""
        return [Bill(_name_of(one), _at(one.launch_time), _ended(one)) for one in self._instances()]

    def running(self) -> set[str]:
        """Names of the instances that run."""
        return {bill.name for bill in self.bills() if not bill.ended}

    def close(self) -> None:
        """End the server and every machine."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self.server.close()
        for machine in self._machines.values():
            _cut_off(machine.process)

    def _look(self, action: str, body: str) -> None:
        """No job may run on what is about to be ended."""
        if action != "TerminateInstances":
            return
        for number in re.findall(r"i-[0-9a-f]+", body):
            machine = self._machines.get(number)
            jobs = _jobs_below(machine.process.pid) if machine is not None else []
            if jobs:
                self.wrong.append(f"{machine.name if machine else number} is ended while jobs run on it: {jobs}")

    def _strike(self, action: str) -> None:
        if self.faulty and action in ("RunInstances", "TerminateInstances") and self._chance.random() < 0.15 and self._kill():
            self.killed_in_calls += 1

    def _keep_machines(self) -> None:
        while not self._stop.wait(MACHINES_EVERY):
            for one in self._instances():
                machine = self._machines.get(one.id)
                if _ended(one):
                    if machine is not None:
                        _cut_off(machine.process)
                elif machine is None:
                    self._machines[one.id] = _Machine(_name_of(one), self._boot(one))
                elif machine.process.poll() is not None:  # it has powered off, and terminates by that
                    one.terminate()

    def _boot(self, one: Any) -> subprocess.Popen[bytes]:
        script = one.user_data.decode()
        variables = re.search(r"<<'VARIABLES'\n(.*?)\nVARIABLES", script, re.DOTALL)
        command = re.search(r"^ExecStart=(.*)$", script, re.MULTILINE)
        if variables is None or command is None:
            raise RuntimeError(f"user data without variables or command: {script}")
        words = [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(command[1])][2:]
        place = self._folder / _name_of(one)
        place.mkdir(parents=True, exist_ok=True)
        changed = {"--data": str(place / "data"), "--notice": str(place / "notice.json"), "--power-off": "true"}
        for option, value in changed.items():
            words[words.index(option) + 1] = value
        words += ["--devices", "sim:2xH100-80GB", "--run-as", "self", "--limits", "off"]
        with (place / "log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-P", "-m", "headrace.node_executor", *words],
                env=os.environ | dict(line.split("=", 1) for line in shlex.split(variables[1])),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _keep_shaking(self) -> None:
        """Other faults each second: capacity, rates, answers that are lost, lists that lag."""
        server, chance = self.server, self._chance
        while not self._stop.wait(SHAKEN_EVERY):
            if not self.faulty:
                server.mend()
                continue
            server.sold_out = {("us-east-1b", "p4d.24xlarge")} if chance.random() < 0.3 else set()
            server.throttled = chance.randrange(4) if chance.random() < 0.2 else 0
            server.lagging = chance.randrange(1, 5) if chance.random() < 0.4 else 0
            server.lost = {action for action in ("RunInstances", "TerminateInstances") if chance.random() < 0.25}
            server.answers = {"DescribeInstances": "ExpiredToken"} if chance.random() < 0.05 else {}


def _name_of(one: Any) -> str:
    return next((tag["value"] for tag in one.get_tags() if tag["key"] == "headrace:instance"), one.id)


def _at(moment: datetime) -> int:
    return round(moment.replace(tzinfo=UTC).timestamp() * 1_000_000)


def _ended(one: Any) -> int:
    noted = re.search(r"\((.*?) UTC\)", one.state_transition_reason or "")
    return _at(datetime.fromisoformat(noted[1])) if noted and one.state in ("shutting-down", "terminated") else 0


def _below(pid: int) -> Iterable[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).children(recursive=True)
    return ()


def _jobs_below(pid: int) -> list[str]:
    found = []
    for process in _below(pid):
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if any(word.endswith(JOB) for word in words) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(words))
    return found


def _cut_off(process: subprocess.Popen[bytes]) -> None:
    """The power goes: nothing that runs there says anything any more."""
    if process.poll() is not None:
        return
    for one in (*_below(process.pid), psutil.Process(process.pid)):
        with contextlib.suppress(psutil.Error):
            one.send_signal(signal.SIGKILL)
    process.wait()


def now() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1_000
