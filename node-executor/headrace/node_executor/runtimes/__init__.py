"""How a job is run: as a process, or in a container.

The question it answers: *how does a command become something that runs, can be signalled, outlives us, and ends with an exit code?*

- `Runtime` is the face, `Launch` what it is given, `Running` what it gives back, `RuntimeListener` who is told.
- `process` starts plain processes, each kept by a small process of its own (`keeper.c`, or `keeper.py` where that cannot be built);
  `nursery` is our end of the wires to them; `output` is what we ourselves write into a job's log.
- `container` has what has an image run by Docker or Podman; `container_run` is what stands for it as a process, and `container_init.c` is
  the first process in it.

It never decides when to start or to stop, and never touches devices or directories.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from headrace.contracts.documents.model import Mount
from headrace.node_executor.launch.accounts import UserAccount
from headrace.node_executor.launch.cgroups import LeaseGroup
from headrace.node_executor.runtimes.job_log import Output

COMMAND_NOT_FOUND = 127
COMMAND_UNUSABLE = 126
JOB, CALLBACK = "job", "abort"


class CannotStart(Exception):
    """There is no process. `exit_code` is set where the job is at fault, None where the node is (R36)."""

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class Container(NamedTuple):
    """What a container is made from: `binds` are paths that are the same inside, `devices` CDI names, `nodes` what stands behind ours.

    `mounts`: directories of the node that the group's rules have it find. Limits as in `cgroups.Limits`; 0: none.
    """

    image: str
    binds: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    cpu: int = 0
    memory: int = 0
    pids: int = 0
    mounts: tuple[Mount, ...] = ()


class Launch(NamedTuple):
    """A command with all that it needs.

    `name` is one for each start, and finds it again after a restart; `directory` is where it runs, `control` the job's control directory;
    `output` is its log. `account` None: it runs as we do; `group` None: nothing holds what it takes. `part` of the group: the job or its
    callback. `within`: where it has no group, the cgroup (version 2) that it begins in, if any; `prefix`: what it is started through.
    """

    name: str
    command: tuple[str, ...]
    env: dict[str, str]
    directory: str
    control: str
    output: Output
    account: UserAccount | None = None
    group: LeaseGroup | None = None
    part: str = JOB
    within: str = ""
    prefix: tuple[str, ...] = ()
    container: Container | None = None


class End(NamedTuple):
    """How it ended. `code` as a shell tells it; None where nobody can say. `at`: microseconds since 1970, by this machine."""

    code: int | None
    at: int


class Running(Protocol):
    """Something that was started and has not ended."""

    @property
    def pid(self) -> int:
        """The process that everything else of the job descends from."""

    def terminate(self) -> None:
        """SIGTERM to every process of it, which has ended when all of them have; nothing where it has ended."""

    def suspend(self) -> None:
        """Let every process of it stand still, where it is; nothing where it has ended."""

    def resume(self) -> None:
        """The inverse of `suspend`."""

    def kill(self) -> None:
        """SIGKILL to it and all that it started; nothing where it has ended."""


class RuntimeListener(NamedTuple):
    """Who is told, in the loop: `started` or `failed` once, and after `started` `ended` once, when all of it is gone."""

    started: Callable[[Running, int], None]
    failed: Callable[[CannotStart], None]
    ended: Callable[[End], None]


class Runtime(Protocol):
    """A way to run jobs, which go on running whatever becomes of us."""

    def start(self, launch: Launch, hears: RuntimeListener) -> None:
        """Start it."""

    def adopt(self, launch: Launch, hears: RuntimeListener) -> bool:
        """Take over what was started under this name, perhaps by a former executor; False where nothing ever was.

        Of something that has ended meanwhile `started` is told as well, then `ended`.
        """

    def forget(self, name: str) -> None:
        """It has ended, and whoever had to know knows: remove what was kept of it."""
