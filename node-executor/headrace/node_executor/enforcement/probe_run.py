"""Runs the probe in an enclosure, as a job's account and started as a job is, and returns what it could do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence

import structlog

from headrace.contracts.own_accounts import closed_to_others
from headrace.node_executor.enforcement import probe
from headrace.node_executor.system.accounts import UserAccount

PATIENCE = 30.0
"""Seconds that the probe may take; the first program on an unused GPU waits for the driver."""

_log = structlog.get_logger("headrace.node_executor")


class ProbeRun:
    """Runs the probe as `account`; None: as the executor itself, if jobs run so too.

    `message`: the last line that the latest one wrote to stderr, or why it could not be run; for messages about proofs that fail.
    """

    def __init__(self, account: UserAccount | None = None) -> None:
        self.account = account
        self.message = ""

    def send(
        self, what: Sequence[str], env: Mapping[str, str], group: str = "", prefix: Sequence[str] = (), *, leaving: bool = False
    ) -> list[int]:
        """Return the probe's results; empty if the probe could not run.

        It is in the cgroup `group` before it begins, if given. `leaving`: it first tries to move out of that group, as a job may.
        """
        with open(probe.__file__, encoding="utf-8") as file:
            source = file.read()  # passed as text: its account may not be able to read this package
        escape = ("leave", os.path.dirname(group)) if leaving and group else ()
        script = ("-I", "-S", "-c", source)
        order = {
            "command": [*prefix, _interpreter(self.account), *script, *escape, *what],
            "env": _surroundings() | dict(env),
            "group": group,
            "account": None if self.account is None else [self.account.uid, self.account.gid, list(self.account.groups)],
        }
        try:
            done = subprocess.run(  # noqa: S603 - our own script, by our own interpreter
                [sys.executable, *script, "become"],
                env=_surroundings(),
                input=json.dumps(order),
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
                cwd="/",
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self.message = str(error)
            _log.warning("probe_not_run", what=what[0], reason=self.message)
            return []
        self.message = (done.stderr.strip().splitlines() or [""])[-1]
        if done.returncode or not done.stdout.strip():
            _log.info("probe_failed", what=what[0], exit_code=done.returncode, reason=self.message)
            return []
        return [int(word) for word in done.stdout.split()]

    def refuses_beyond(self, part: int, env: Mapping[str, str], group: str = "") -> bool:
        """Return whether a process in this enclosure gets some memory, and none that would bring it beyond `part` MiB.

        One outside any enclosure has to get both: otherwise the device is merely full.
        """
        return self.is_roomy(part, env) and self.is_held(part, env, group)

    def is_roomy(self, part: int, env: Mapping[str, str]) -> bool:
        """Return whether an unlimited process gets the memory that is needed to test `part`."""
        return self.send(_beyond(part), {name: value for name, value in env.items() if name == "CUDA_VISIBLE_DEVICES"})[:2] == [
            0,
            0,
        ]

    def is_held(self, part: int, env: Mapping[str, str], group: str = "") -> bool:
        """Return whether a process in this enclosure gets some memory, and no more than `part`."""
        return self.send(_beyond(part), env, group)[:2] == [0, probe.OUT_OF_MEMORY]


def _beyond(part: int) -> tuple[str, ...]:
    return ("take", "16", str(part + 64))


def _interpreter(account: UserAccount | None) -> str:
    """Return this interpreter, or the system's if this one lies in a directory that is closed to accounts of jobs."""
    if account is None or not closed_to_others(os.path.realpath(sys.executable)) + closed_to_others(sys.executable):
        return sys.executable
    return shutil.which("python3", path=os.defpath) or sys.executable


def _surroundings() -> dict[str, str]:
    """Return the variables that any program needs, and those that find the driver's libraries in unusual places."""
    names = ("PATH", "LD_LIBRARY_PATH", "MOCK_NVML_STATE")
    return {name: os.environ[name] for name in names if name in os.environ}
