"""How a job is run. A process in this version; containers get a place beside it.

The question it answers: *how does a command become something that runs, can be signalled, and ends with an exit code?*

- `Runtime` is the face, `Launch` what it is given, `Running` what it gives back.
- `process` starts plain processes; `output` keeps what they print.

It never decides when to start or to stop, and never touches devices or directories.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from headrace.node_executor.runtimes.output import Output

COMMAND_NOT_FOUND = 127
COMMAND_UNUSABLE = 126


class CannotStart(Exception):
    """There is no process. `exit_code` is set where the job is at fault, None where the node is (R36)."""

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class Launch(NamedTuple):
    """A command with all that it needs. `directory` is where it runs; `output` takes its stdout and stderr."""

    command: tuple[str, ...]
    env: dict[str, str]
    directory: str
    output: Output


class Running(Protocol):
    """Something that was started and has not ended."""

    @property
    def pid(self) -> int:
        """The process that everything else of the job descends from."""

    def terminate(self) -> None:
        """SIGTERM to the process; nothing where it has ended."""

    def suspend(self) -> None:
        """Let it and its group stand still, where they are; nothing where it has ended."""

    def resume(self) -> None:
        """The inverse of `suspend`."""

    def kill(self) -> None:
        """SIGKILL to it and all that it started in its group; nothing where it has ended."""


class Runtime(Protocol):
    """A way to run jobs."""

    def start(self, launch: Launch, ended: Callable[[int], None]) -> Running:
        """Start it. `ended` is called once, in the loop, with the exit code as a shell tells it, when all of it is gone.

        Raises `CannotStart`; then nothing runs and `ended` is never called.
        """
