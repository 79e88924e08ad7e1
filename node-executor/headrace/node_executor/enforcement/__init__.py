"""Enforcement of each job's part of the node: several mechanisms behind one interface, each proved before it is offered.

It answers the question: *what keeps this job from devices and memory that are not its own, and does it really work here?*

- `Mechanism` is the interface of a mechanism, `Enclosure` what it gives a job, `EnforcementRequest` its input. `enforcement` ranks the
  mechanisms, has each prove itself (`probe_run` runs the `probe`), and combines what a lease gets; `parts` has the numbers;
  `discovery` lists the mechanisms that the node may have; `enforcement_worker` calls them in a thread of their own.
- `device_isolation` keeps jobs from opening other devices (`bpf`: a list that the kernel enforces; `private_dev.c`: a /dev of its own).
- `mig` makes slices and destroys them; `group_limits` are the driver's limits by cgroup; `mps` runs a daemon per device; `preload` is a
  limit inside the job's processes (`memory_cap.c`); `in_containers` says which levels hold in containers. `watchdog` detects overruns
  beneath all of them; `owners` maps processes to leases.

It never decides which job gets what, and never states a level that was not obtained.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from headrace.contracts.facts.fact import DeviceShare


class CannotEnclose(Exception):
    """The job cannot be kept to its part, and so is not started; the node is at fault (R36)."""


class EnforcementRequest(NamedTuple):
    """A lease that needs enforcement. `control` is its control directory.

    `group`: the cgroup (version 2, its whole path) in which its processes will be; empty if it has no group. `contained`: it runs in a
    container, whose engine makes its cgroup and its /dev.
    """

    lease: str
    shares: tuple[DeviceShare, ...]
    control: str
    group: str = ""
    contained: bool = False


class Enclosure(NamedTuple):
    """What a mechanism gives: the level obtained, variables for the job, and device nodes beside those of its GPUs."""

    level: str
    env: dict[str, str] = {}
    nodes: tuple[str, ...] = ()


class Entered(NamedTuple):
    """What a lease gets: its level, variables, the cgroup to be in before its first instruction, and the command prefix.

    `nodes`: device nodes beside those of its GPUs, for its container.
    """

    level: str
    env: dict[str, str]
    group: str = ""
    prefix: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class Mechanism(Protocol):
    """One mechanism that keeps a job to its part of a device. All calls may wait for drivers and daemons, and are made in one thread."""

    @property
    def name(self) -> str:
        """Its name in messages and metrics."""

    def prove(self) -> str:
        """Return the level that it really gives here, found by a trial; empty if it does not work."""

    def enclose(self, case: EnforcementRequest) -> Enclosure:
        """Set it up for a lease. Raises `CannotEnclose`; then nothing is left of it."""

    def adopt(self, case: EnforcementRequest) -> Enclosure:
        """Take over a running lease that a former executor enclosed."""

    def open(self, lease: str) -> str:
        """Remove what was set up for a lease whose processes are gone; returns why that is not possible yet, or "". May be repeated."""


class SliceMechanism(Mechanism, Protocol):
    """A mechanism that also creates what it gives: slices of a device."""

    def reconcile(self, alive: Iterable[str]) -> object:
        """After a start: destroy slices of ours whose leases are not `alive`; report slices of others and leave them."""

    def check_foreign_slices(self) -> object:
        """Report devices on which slices of others have appeared or disappeared. Called regularly."""
