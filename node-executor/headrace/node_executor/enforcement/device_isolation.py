"""Keeps a job from opening devices that are not its own.

Strategy: `CgroupDeviceList` gives the job's cgroup a list of nodes (root, cgroup v2, also where that is mounted beside version 1).
`PrivateDev` gives the job a /dev of its own with only its nodes (ordinary users; the program is built here). If neither works,
`NoDeviceNodeIsolation` is used: then only the cooperation of jobs keeps them to their devices. Tested on nodes that every machine has.
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
from headrace.node_executor.enforcement.probe_run import ProbeRun

USUAL = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx")
"""Device nodes that every program may open."""

FABRICS = ("/dev/infiniband/*", "/dev/gdrdrv")
"""Device nodes of network fabrics; access between jobs on a fabric is the fabric's own concern."""

TERMINALS = DeviceRule(136, None)
PROBE = "/dev/full"
"""A device node that every machine has, and that is on none of the lists."""

_log = structlog.get_logger("headrace.node_executor")


class IsolatedLaunch(NamedTuple):
    """`group`: the cgroup that the job's processes have to be in before they begin, if any; `prefix`: command that starts the job."""

    group: str = ""
    prefix: tuple[str, ...] = ()


class DeviceNodeIsolation(Protocol):
    """One way to restrict the device nodes that a job can open."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    def prove(self) -> bool:
        """Return whether it works here, found by a trial."""

    def group_of(self, name: str, group: str) -> str:
        """Return the cgroup of a lease's processes: its own `group`, else one made for this purpose, or ""."""

    def build(self, name: str, nodes: Sequence[str], group: str) -> IsolatedLaunch:
        """Restrict a lease, whose control directory has this name, to its nodes and the usual ones; `group`: its cgroup, if any."""

    def again(self, name: str, nodes: Sequence[str], group: str) -> IsolatedLaunch:
        """Return what `build` returned to a former executor."""

    def tear_down(self, name: str) -> None:
        """Remove it once the lease's processes are gone."""


class NoDeviceNodeIsolation:
    """No restriction of device nodes."""

    name = "none"

    def prove(self) -> bool:
        """Return True: it always works, and does nothing."""
        return True

    def group_of(self, name: str, group: str) -> str:  # noqa: ARG002 - the interface of all mechanisms
        """Return the lease's own group, if any."""
        return group

    def build(self, name: str, nodes: Sequence[str], group: str) -> IsolatedLaunch:  # noqa: ARG002 - the interface of all mechanisms
        """Return nothing to be started through."""
        return IsolatedLaunch()

    def again(self, name: str, nodes: Sequence[str], group: str) -> IsolatedLaunch:  # noqa: ARG002 - the interface of all mechanisms
        """Return nothing to be started through."""
        return IsolatedLaunch()

    def tear_down(self, name: str) -> None:
        """Does nothing; nothing was built."""


class CgroupDeviceList:
    """A list for each cgroup. `base`: a directory of cgroup v2 in which to create groups for jobs that have none yet.

    `trial` runs the probe as a job runs.
    """

    name = "cgroup device list"

    def __init__(self, base: str, trial: ProbeRun | None = None) -> None:
        self._base = base
        self._trial = trial or ProbeRun()

    def prove(self) -> bool:
        """Return whether the probe can open one node and not another, also after it has tried to leave its cgroup.

        Root may leave it, so if jobs run as root this returns False.
        """
        name = f"probe-{os.getpid()}"
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
        """Return the lease's own cgroup, else one created for it. Raises `CannotEnclose`."""
        own = group or f"{self._base}/{name}"
        try:
            os.makedirs(own, 0o755, exist_ok=True)
        except OSError as error:
            raise CannotEnclose(f"its cgroup cannot be made: {error.strerror}") from None
        return own

    def build(self, name: str, nodes: Sequence[str], group: str) -> IsolatedLaunch:
        """Attach the list to the lease's cgroup, else to one created for it."""
        allowed = [node for path in (*common_nodes(), *nodes) if (node := bpf.node_of(path)) is not None]
        own = self.group_of(name, group)
        try:
            bpf.attach(own, [*allowed, TERMINALS])
        except OSError as error:
            raise CannotEnclose(f"the list of its devices cannot be set: {error.strerror or error}") from None
        return IsolatedLaunch("" if group else own)

    def again(self, name: str, nodes: Sequence[str], group: str) -> IsolatedLaunch:  # noqa: ARG002 - the interface of all mechanisms
        """Return the same again; the list lives as long as its cgroup."""
        return IsolatedLaunch("" if group else f"{self._base}/{name}")

    def tear_down(self, name: str) -> None:
        """Remove the cgroup, if created here, and with it the list."""
        with contextlib.suppress(OSError):
            os.rmdir(f"{self._base}/{name}")


class PrivateDev:
    """A /dev of its own, made by `program` (`private_dev.c`) before the job begins. `trial` runs the probe as a job runs."""

    name = "private /dev"

    def __init__(self, program: str, trial: ProbeRun | None = None) -> None:
        self._program = program
        self._trial = trial or ProbeRun()

    def prove(self) -> bool:
        """Return whether the probe can open one node and does not find another."""
        return self._trial.send(("open", "/dev/null", PROBE), {}, prefix=self.build("", (), "").prefix) == [1, 0]

    def group_of(self, name: str, group: str) -> str:  # noqa: ARG002 - the interface of all mechanisms
        """Return the lease's own group, if any."""
        return group

    def build(self, name: str, nodes: Sequence[str], group: str) -> IsolatedLaunch:  # noqa: ARG002 - the interface of all mechanisms
        """Return the program with the list as prefix."""
        there = [path for path in (*common_nodes(), *nodes) if os.path.exists(path)]
        return IsolatedLaunch(prefix=(self._program, *there, "--"))

    def again(self, name: str, nodes: Sequence[str], group: str) -> IsolatedLaunch:
        """Return the same prefix again."""
        return self.build(name, nodes, group)

    def tear_down(self, name: str) -> None:
        """Does nothing: it ended with the processes."""


def common_nodes(fabrics: Sequence[str] = FABRICS) -> tuple[str, ...]:
    """Return the nodes that every job may open: the usual ones, and those of fabrics that are here."""
    return (*USUAL, *(path for pattern in fabrics for path in sorted(glob.glob(pattern))))


def strongest(mechanisms: Sequence[DeviceNodeIsolation]) -> DeviceNodeIsolation:
    """Return the first that proves itself."""
    return next((mechanism for mechanism in mechanisms if mechanism.prove()), NoDeviceNodeIsolation())
