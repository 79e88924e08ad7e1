"""Runtimes of jobs: as a process, or in a container.

They answer the question: *how does a command become something that runs, takes signals, outlives the executor, and ends with an exit
code?*

- `Runtime` is the interface, `Launch` its input, `Running` its result, `RuntimeListener` the callbacks.
- `process` starts plain processes, each kept by a small process of its own (`keeper.c`, or `keeper.py` if that cannot be built);
  `keeper_client` sends them orders and reads their reports; `job_log` writes the executor's own lines into a job's log.
- `container` runs jobs with an image by Docker or Podman; `container_run` is the process that represents a container,
  `container_request` the bodies of requests to the engine, `container_network` makes the network that private containers share, and
  `container_init.c` is the first process in a container.

They never decide when to start or to stop, and never touch devices or directories.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from headrace.contracts.documents.model import Mount
from headrace.contracts.values.networks import PRIVATE
from headrace.node_executor.runtimes.job_log import Output
from headrace.node_executor.system.accounts import UserAccount
from headrace.node_executor.system.cgroups import LeaseGroup

COMMAND_NOT_FOUND = 127
COMMAND_UNUSABLE = 126
JOB, CALLBACK = "job", "abort"


class CannotStart(Exception):
    """The process cannot be started. `exit_code` is set if the job is at fault, None if the node is (R36)."""

    def __init__(self, message: str, exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class Container(NamedTuple):
    """What a container is made from: `binds`: paths that are the same inside, `devices`: CDI names, `nodes`: device nodes.

    `mounts`: directories of the node that the group's rules add. Limits as in `cgroups.Limits`; 0: unlimited. `login`: `USER:PASSWORD` for
    the image's registry; "" without one. `network`: one of `values.networks`.
    """

    image: str
    binds: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    cpu: int = 0
    memory: int = 0
    pids: int = 0
    mounts: tuple[Mount, ...] = ()
    login: str = ""
    network: str = PRIVATE


class Launch(NamedTuple):
    """A command with all that it needs.

    `name` is unique for each start, and finds it again after a restart; `directory` is where it runs, `control` the job's control
    directory; `output` is its log. `account` None: the executor's; `group` None: without limits. `part` of the group: the job or its
    callback. `within`: without a group, the cgroup (version 2) that it begins in, if any; `prefix`: the command that starts it.
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

    @property
    def name_of_container(self) -> str:
        """The name of the job's container; its callback runs in the same one."""
        return f"headrace-{self.name.removesuffix(f'.{CALLBACK}')}"


class End(NamedTuple):
    """How it ended. `code` as a shell reports it; None if unknown. `at`: microseconds since 1970, by this machine.

    `message`: why, as far as the runtime knows. `terminated`: it was sent SIGTERM before, by the executor or by anyone else.
    """

    code: int | None
    at: int
    message: str = ""
    terminated: bool = False


class Running(Protocol):
    """A command that was started and has not ended."""

    @property
    def pid(self) -> int:
        """The process from which all other processes of the job descend."""

    @property
    def group(self) -> LeaseGroup | None:
        """The control group with all of its processes, by which it is suspended; None without one."""

    def terminate(self) -> None:
        """Send SIGTERM to every process of it; it has ended when all of them have. No effect once it has ended."""

    def suspend(self) -> None:
        """Stop every process of it where it is; no effect once it has ended."""

    def resume(self) -> None: ...

    def kill(self) -> None:
        """Send SIGKILL to it and all that it started; no effect once it has ended."""


class RuntimeListener(NamedTuple):
    """Callbacks in the loop: `started` or `failed` once, and after `started` `ended` once, when all of it is gone."""

    started: Callable[[Running, int], None]
    failed: Callable[[CannotStart], None]
    ended: Callable[[End], None]


class Runtime(Protocol):
    """A way to run jobs, which continue whatever happens to the executor."""

    def start(self, launch: Launch, listener: RuntimeListener) -> None:
        """Start the command in `launch`."""

    def adopt(self, launch: Launch, listener: RuntimeListener) -> bool:
        """Take over what was started under this name, perhaps by a former executor; False if nothing was started under it.

        If it has ended meanwhile, `started` is called as well, then `ended`.
        """

    def forget(self, name: str) -> None:
        """Remove the record of a command whose end has been processed."""
