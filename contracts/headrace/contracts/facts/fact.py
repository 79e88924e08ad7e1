"""The base of every fact, and the values that facts share."""

from __future__ import annotations

from functools import cache
from typing import Annotated

import msgspec

from headrace.contracts.values.value import Value

Whole = Annotated[int, msgspec.Meta(ge=-(2**53) + 1, le=2**53 - 1)]
"""An integer from outside of our services: within the range of every JSON reader and every database."""


class Fact(Value, frozen=True, tag_field="type"):
    """Something that happened. `type` is its name and version; defaults are left out of the bytes."""


@cache
def fact_type(kind: type[Fact]) -> str:
    """The type of the facts of a class, with the version: `lease.granted.v1`."""
    return str(kind.__struct_config__.tag)


class DeviceShare(Value, frozen=True, kw_only=True):
    """Units of one device (R1): 126,000 is the whole device. `device` is the node's own name for it.

    Of a device in MIG mode it is the slice `mig`, from memory slice `start` on, and `units` is the slice's charge (R4).
    """

    device: str
    units: int
    mig: str = ""
    start: int = 0

    @property
    def label(self) -> str:
        """The share as people read it: `gpu3`, or `gpu3:3g.40gb@4` for a slice."""
        return f"{self.device}:{self.mig}@{self.start}" if self.mig else self.device


class Place(Value, frozen=True, kw_only=True):
    """Where one replica runs: a node and the units of its devices. `amounts` is all that the replica is charged."""

    node: str
    devices: tuple[DeviceShare, ...] = ()
    amounts: dict[str, int] = {}


class Ladder(Value, frozen=True, kw_only=True):
    """All rungs of one stop, with their graces in microseconds; the node completes it alone (R28).

    `cause` is one of `preempted`, `cancelled`, `time_limit`, `drain`, `interrupted` (the provider takes the instance back, R38),
    `requeued`, `gang_broken`, `moved`. `then` is what happens to the job
    afterwards: `requeue`, `suspend` or `cancel` (R29).
    """

    cause: str
    callback_grace: int
    term_grace: int
    then: str = "requeue"
    preemptor: str = ""
