"""What keeps a job to its part of the node, and how well: every backend behind one face, each proved before it is offered.

The question it answers: *what stands between this job and what is not its own, and is it really there?*

- `Fence` is the face of a backend, `Enclosure` what it gives a job, `EnforcementRequest` what it is asked for. `fences` ranks the
  backends, has each prove itself (`trial` sends the `canary`), and puts together what a lease gets; `parts` are the numbers.
- `wall` keeps jobs from opening other devices (`bpf`: a list that the kernel enforces; `private_dev.c`: a /dev of its own).
- `mig` makes slices and destroys them; `group_limits` are the driver's limits by cgroup; `mps` a daemon per device; `preload` a cap from
  within (`memory_cap.c`). `watchdog` sees who takes too much, under all of them; `owners` tells whose a process is.

It never decides who gets what, and never states a level that was not obtained.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from headrace.contracts.facts.fact import DeviceShare


class CannotEnclose(Exception):
    """The job cannot be kept to its part, and so not started; the node is at fault (R36)."""


class EnforcementRequest(NamedTuple):
    """A lease that wants to be enclosed. `control` is its control directory.

    `group`: the cgroup (version 2, its whole path) in which its processes will be; empty where there is none.
    """

    lease: str
    shares: tuple[DeviceShare, ...]
    control: str
    group: str = ""


class Enclosure(NamedTuple):
    """What a backend gives: the level obtained, variables for the job, and device nodes beside those of its GPUs."""

    level: str
    env: dict[str, str] = {}
    nodes: tuple[str, ...] = ()


class Entered(NamedTuple):
    """What a lease gets: its level, variables, the cgroup to be in before its first instruction, and what it is started through."""

    level: str
    env: dict[str, str]
    group: str = ""
    prefix: tuple[str, ...] = ()


class Fence(Protocol):
    """One way to keep a job to its part of a device. All of it waits for drivers and daemons, and is called in one thread."""

    @property
    def name(self) -> str:
        """How it is called."""

    def prove(self) -> str:
        """The level that it really gives here, found by trying; empty where it does not work."""

    def enclose(self, case: EnforcementRequest) -> Enclosure:
        """Set it up for a lease. Raises `CannotEnclose`; then nothing is left of it."""

    def adopt(self, case: EnforcementRequest) -> Enclosure:
        """A lease that was enclosed by a former executor, and runs on: its fence stands, and has to be taken down one day."""

    def open(self, lease: str) -> str:
        """The processes of a lease are gone: take down what was set up; why that cannot be done yet, or empty. Again does no harm."""


class SliceFence(Fence, Protocol):
    """A fence that makes what it gives: slices of a device."""

    def reconcile(self, alive: Iterable[str]) -> object:
        """After a start: slices of ours whose leases are not `alive` are destroyed, those of others are left and reported."""

    def look(self) -> object:
        """Now and then: report devices on which slices of others have come, or are no more."""
