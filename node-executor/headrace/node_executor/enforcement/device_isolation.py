"""Keeps a job from opening devices that are not its own.

Strategy: `GroupWall` gives the job's cgroup a list of nodes (root, cgroup v2, also where that is mounted beside version 1). `NamespaceWall`
gives the job a /dev of its own with nothing else in it (ordinary users; the program is built here). `NoWall` stands where neither works:
then only good manners keep a job to its devices. Whichever it is, it is tried on nodes that every machine has.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import structlog

from headrace.node_executor.enforcement import CannotEnclose, bpf
from headrace.node_executor.enforcement.bpf import DeviceRule
from headrace.node_executor.enforcement.probe_run import Trial

USUAL = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx")
"""What every program may open."""

FABRICS = ("/dev/infiniband/*", "/dev/gdrdrv")
"""What programs on several nodes talk through; whose packets are whose is the fabric's affair."""

TERMINALS = DeviceRule(136, None)
PROBE = "/dev/full"
"""A node that every machine has, and that is on no list."""

_log = structlog.get_logger("headrace.node_executor")


class Walled(NamedTuple):
    """`group`: the cgroup that the job's processes have to be in before they begin, if any; `prefix`: what they are started through."""

    group: str = ""
    prefix: tuple[str, ...] = ()


class Wall(Protocol):
    """One way to do it."""

    @property
    def name(self) -> str:
        """How it is called."""

    def prove(self) -> bool:
        """Whether it works here, found by trying."""

    def group_of(self, name: str, group: str) -> str:
        """The cgroup in which a lease's processes will be: its own, if it has one, else what the wall makes for it; or empty."""

    def build(self, name: str, nodes: Sequence[str], group: str) -> Walled:
        """For the lease whose control directory has this name, around its nodes and the usual ones; `group`: its cgroup, if any."""

    def again(self, name: str, nodes: Sequence[str], group: str) -> Walled:
        """What was built for a lease by a former executor."""

    def tear_down(self, name: str) -> None:
        """Its processes are gone."""


class NoWall:
    """There is none."""

    name = "none"

    def prove(self) -> bool:
        """It always works, and does nothing."""
        return True

    def group_of(self, name: str, group: str) -> str:  # noqa: ARG002 - the face of all walls
        """None is made."""
        return group

    def build(self, name: str, nodes: Sequence[str], group: str) -> Walled:  # noqa: ARG002 - the face of all walls
        """Nothing is built."""
        return Walled()

    def again(self, name: str, nodes: Sequence[str], group: str) -> Walled:  # noqa: ARG002 - the face of all walls
        """Nothing was."""
        return Walled()

    def tear_down(self, name: str) -> None:
        """Nothing is there."""


class GroupWall:
    """A list for each cgroup. `base`: a directory of cgroup v2 below which we may make our own, for jobs that have none yet.

    `trial` runs the canary as a job runs.
    """

    name = "cgroup device list"

    def __init__(self, base: str, trial: Trial | None = None) -> None:
        self._base = base
        self._trial = trial or Trial()

    def prove(self) -> bool:
        """The canary is let through to one node and not to another, also after it has tried to leave its cgroup.

        Root may leave it, so where jobs run as root this wall is not proved.
        """
        name = f"canary-{os.getpid()}"
        try:
            walled = self.build(name, (), "")
            answers = self._trial.send(("open", "/dev/null", PROBE), {}, walled.group, leaving=True)
        except CannotEnclose as error:
            _log.info("no_device_list", reason=str(error))
            return False
        finally:
            self.tear_down(name)
        if answers == [1, 1]:
            _log.warning(
                "no_device_list",
                reason="a program that runs as jobs do leaves its cgroup and opens devices that are not on its list",
                help="run jobs under accounts of their own: --run-as own",
            )
        return answers == [1, 0]

    def group_of(self, name: str, group: str) -> str:
        """Its own, else one that is made for it. Raises `CannotEnclose`."""
        own = group or f"{self._base}/{name}"
        try:
            os.makedirs(own, 0o755, exist_ok=True)
        except OSError as error:
            raise CannotEnclose(f"its cgroup cannot be made: {error.strerror}") from None
        return own

    def build(self, name: str, nodes: Sequence[str], group: str) -> Walled:
        """The list is attached to the job's cgroup, else to one that is made for it."""
        allowed = [node for path in (*everybodys(), *nodes) if (node := bpf.node_of(path)) is not None]
        own = self.group_of(name, group)
        try:
            bpf.attach(own, [*allowed, TERMINALS])
        except OSError as error:
            raise CannotEnclose(f"the list of its devices cannot be set: {error.strerror or error}") from None
        return Walled("" if group else own)

    def again(self, name: str, nodes: Sequence[str], group: str) -> Walled:  # noqa: ARG002 - the face of all walls
        """Its list stands as long as its cgroup does."""
        return Walled("" if group else f"{self._base}/{name}")

    def tear_down(self, name: str) -> None:
        """The cgroup goes, if it was ours, and the list with it."""
        with contextlib.suppress(OSError):
            os.rmdir(f"{self._base}/{name}")


class NamespaceWall:
    """A /dev of its own, made by `program` (`private_dev.c`) before the job begins. `trial` runs the canary as a job runs."""

    name = "private /dev"

    def __init__(self, program: str, trial: Trial | None = None) -> None:
        self._program = program
        self._trial = trial or Trial()

    def prove(self) -> bool:
        """The canary is let through to one node and does not find another."""
        return self._trial.send(("open", "/dev/null", PROBE), {}, prefix=self.build("", (), "").prefix) == [1, 0]

    def group_of(self, name: str, group: str) -> str:  # noqa: ARG002 - the face of all walls
        """None is made."""
        return group

    def build(self, name: str, nodes: Sequence[str], group: str) -> Walled:  # noqa: ARG002 - the face of all walls
        """The program with the list."""
        there = [path for path in (*everybodys(), *nodes) if os.path.exists(path)]
        return Walled(prefix=(self._program, *there, "--"))

    def again(self, name: str, nodes: Sequence[str], group: str) -> Walled:
        """One like it."""
        return self.build(name, nodes, group)

    def tear_down(self, name: str) -> None:
        """It went with the processes."""


def everybodys(fabrics: Sequence[str] = FABRICS) -> tuple[str, ...]:
    """The nodes that every job may open: the usual ones, and those of fabrics that are here."""
    return (*USUAL, *(path for pattern in fabrics for path in sorted(glob.glob(pattern))))


def strongest(walls: Sequence[Wall]) -> Wall:
    """The first that proves itself."""
    return next((wall for wall in walls if wall.prove()), NoWall())
