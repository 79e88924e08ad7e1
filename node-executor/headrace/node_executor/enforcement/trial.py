"""Sends the canary: runs it in an enclosure, and tells what it was let do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

import structlog

from headrace.node_executor.enforcement import canary

PATIENCE = 30.0
"""Seconds; the first program on a GPU that nobody has used waits for the driver."""

_log = structlog.get_logger("headrace.node_executor")
_JOIN = 'echo $$ > "$0/cgroup.procs" && exec "$@"'


def send(what: Sequence[str], env: Mapping[str, str], group: str = "", prefix: Sequence[str] = ()) -> list[int]:
    """The canary's answers; none where it could not sing. It is in the cgroup `group` before it begins, if there is one."""
    command = [*prefix, sys.executable, "-I", "-S", canary.__file__, *what]
    if group:
        command = ["/bin/sh", "-c", _JOIN, group, *command]
    try:
        done = subprocess.run(  # noqa: S603 - our own script, by our own interpreter
            command, env=_surroundings() | dict(env), capture_output=True, text=True, timeout=PATIENCE, check=False, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _log.warning("canary_lost", what=what[0], reason=str(error))
        return []
    if done.returncode or not done.stdout.strip():
        said = done.stderr.strip().splitlines()
        _log.info("canary_silent", what=what[0], exit_code=done.returncode, reason=said[-1] if said else "")
        return []
    return [int(word) for word in done.stdout.split()]


def refused_beyond(part: int, env: Mapping[str, str], group: str = "") -> bool:
    """Whether a process in this enclosure gets some memory, and none that would bring it beyond `part` MiB.

    One that is in no enclosure has to get both: else the device is merely full.
    """
    return is_roomy(part, env) and is_held(part, env, group)


def is_roomy(part: int, env: Mapping[str, str]) -> bool:
    """Whether a process that nothing holds back gets what it takes to try `part`."""
    return send(_beyond(part), {name: value for name, value in env.items() if name == "CUDA_VISIBLE_DEVICES"})[:2] == [0, 0]


def is_held(part: int, env: Mapping[str, str], group: str = "") -> bool:
    """Whether one in this enclosure gets some memory, and no more than `part`."""
    return send(_beyond(part), env, group)[:2] == [0, canary.OUT_OF_MEMORY]


def _beyond(part: int) -> tuple[str, ...]:
    return ("take", "16", str(part + 64))


def _surroundings() -> dict[str, str]:
    """What any program needs, and what finds the libraries of the driver where they are in no usual place."""
    names = ("PATH", "LD_LIBRARY_PATH", "MOCK_NVML_STATE")
    return {name: os.environ[name] for name in names if name in os.environ}
