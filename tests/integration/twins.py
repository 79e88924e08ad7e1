"""One service twice, as processes, on one server."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.patience import PATIENCE

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from .conftest import NatsServer

STANDBY = "-standby"


class Twins:
    """A service and its standby. What still runs ends with `stack`."""

    def __init__(self, service: str, server: NatsServer, directory: Path, stack: ExitStack) -> None:
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._service = service
        self._server = server
        self._directory = directory
        self._stack = stack

    def start(self, name: str) -> None:
        settings = {
            "HEADRACE_NATS_URL": self._server.url,
            "HEADRACE_NATS_USER": self._service,
            "HEADRACE_NATS_PASSWORD": self._server.credentials[self._service].password,
            "HEADRACE_DATA": str(self._directory),
            "HEADRACE_INSTANCE": name,
            "HEADRACE_TURN": "later" if name.endswith(STANDBY) else "first",
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }
        log = self._stack.enter_context(self.log_of(name).open("ab"))
        process = subprocess.Popen([sys.executable, "-m", f"headrace.{self._service}"], env=os.environ | settings, stderr=log)
        self.processes[name] = process
        self._stack.callback(process.wait, PATIENCE)
        self._stack.callback(process.kill)

    def log_of(self, name: str) -> Path:
        return self._directory / f"{name}.log"
