"""One installation as people start it, and the command line on it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from headrace.client import HeadraceError, connect
from tests import commands
from tests.patience import PATIENCE

LOOK_EVERY = 0.2
"""Seconds. A look is often a command of its own, which takes as long on a processor."""


HEADRACE = (sys.executable, "-m", "headrace.cli")


DOCUMENTS = """
groups: [{name: rnd, members: [alice]}]
pools: [{name: onprem, selector: {site: hq}}]
profiles: [{name: one, request: {gpu: 1}, pools: [onprem]}]
policies: [{name: rnd, group: rnd, profiles: [one], reservation: {gpu: 1}, limit: {gpu: 2}}]
"""


class Machine:
    """One data directory, and the command line on it."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.prefix: tuple[str, ...] = ()
        """Words before every command."""
        (data.parent / "documents.yaml").write_text(DOCUMENTS)
        self.documents = str(data.parent / "documents.yaml")
        self.started: list[subprocess.Popen[str]] = []
        self.released = data.parent / "released"
        self.goes_on_until_released = f"until [ -e {self.released} ]; do sleep 0.05; done; echo survived"
        data.parent.chmod(0o711)  # jobs run as users of their own

    def run(self, *words: str, within: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        verbs = 2 if words[0] in ("node", "burst", "audit", "token") else 1
        words = (*words[:verbs], "--data", str(self.data), *words[verbs:])
        if not self.prefix:
            return commands.run(words, within=within)
        command = (*self.prefix, *HEADRACE, *words)
        return subprocess.run(command, capture_output=True, text=True, timeout=within, check=False)

    def done(self, *words: str) -> str:
        """The output of a command that has to succeed."""
        ran = self.run(*words)
        assert ran.returncode == 0, (words, ran.stdout, ran.stderr)
        return ran.stdout

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command that goes on."""
        command = (*HEADRACE, words[0], "--data", str(self.data), *words[1:])
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.started.append(process)
        return process

    def up(self, *words: str) -> None:
        settings = {"host": "box", "labels": {"site": "hq"}}
        if not self.data.exists():  # a node's name would come from this machine's
            self.data.mkdir(mode=0o700)
            (self.data / "installation.json").write_text(json.dumps(settings))
        self.done("up", "--detach", "--gpus", "2", *words)

    def submit(self, script: str, *words: str) -> str:
        return self.done("submit", "--queue", "rnd/one", "--user", "alice", *words, "--", "sh", "-c", script).strip()

    def job(self, job: str) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(self.done("job", job, "--json"))["job"]
        return shown

    def parts(self) -> dict[str, dict[str, Any]]:
        """The parts by name, whether they are well or not."""
        ran = self.run("status", "--json")
        return {part["name"]: part for part in json.loads(ran.stdout)["parts"]}

    def until_archived(self) -> None:
        """Wait until the books and the archive have all records: also the last of a start, which raises the level some seconds later."""

        def reached() -> bool:
            status = json.loads(self.run("status", "--json").stdout)
            level = status.get("level", {})
            lags = [part["lag"] for part in status["parts"] if part["name"] == "accounting"]
            return bool(level) and level["stated"] == level["newest"] and lags == [0]

        self.until(reached)

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self.logs()
            time.sleep(LOOK_EVERY)

    def until_state(self, job: str, state: str) -> None:
        """By one connection: a command for each look would take the processors from what is waited for."""

        async def reached() -> None:
            async with asyncio.timeout(PATIENCE), connect(data=self.data) as client:
                while True:
                    with suppress(HeadraceError):  # it is away, or does not know the job yet
                        if (await client.job(job)).state == state:
                            return
                    await asyncio.sleep(LOOK_EVERY)

        try:
            asyncio.run(reached())
        except TimeoutError:
            raise AssertionError(f"{job} is not {state}\n{self.logs()}") from None

    def logs(self) -> str:
        """The ends of all logs, for a test that has failed."""
        return "\n".join(f"== {path.name}\n{path.read_text()[-2000:]}" for path in sorted((self.data / "logs").glob("*.log")))

    def processes(self) -> list[psutil.Process]:
        """Everything that runs for this data directory."""
        found = []
        for process in psutil.process_iter():
            try:
                if str(self.data) in " ".join(process.cmdline()) and process.pid != os.getpid():
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def kill(self) -> None:
        """Kill the supervisor, and all with it. A node that is stopped in order states that, and at times too late for the archive."""
        os.kill(json.loads((self.data / "running.json").read_text())["pid"], signal.SIGKILL)
        self.until(lambda: self.processes() == [])

    def end(self) -> None:
        self.run("down", "--now")
        for started in self.started:
            started.kill()
            started.communicate()
        for process in self.processes():
            process.kill()


@contextmanager
def new_machine() -> Iterator[Machine]:
    """A data directory until the block ends.

    Not in pytest's own folder: that is closed again and again to the account as which root runs PostgreSQL.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as folder:
        made = Machine(Path(folder) / "data")
        try:
            yield made
        finally:
            made.end()
