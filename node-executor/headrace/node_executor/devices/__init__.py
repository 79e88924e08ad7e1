"""The GPUs of the node behind one face.

The question it answers: *which devices are here, are they in order, who is on them, and how does a job come to see exactly its own?*

- `Devices` is the face. `nvml` drives NVIDIA's GPUs (`nvml_library` is NVML in our words), `amd` AMD's (`amd_library`); `simulated` makes
  devices out of nothing, for laptops, tests and the demonstration; `found` chooses what `--devices` asks for.
- `health` judges, purely, what drivers report; `names` says how models are called; `gate` lets NVML be begun anew while nobody asks it.

It never decides who gets a device, and never changes one: what is changed on devices is changed by `enforcement`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.nodes import Device
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices.health import Trouble


class DevicesUnknown(ValueError):
    """What was asked for as devices makes no sense here; the message says what to write."""


class OnDevice(NamedTuple):
    """A process that holds memory of a device (MiB); `instance`: in which slice of it, by the driver's number."""

    pid: int
    memory: int
    instance: int | None = None


class Sample(NamedTuple):
    """What a device does: percent of the time in which it computed (None: nobody can say), and MiB of its memory that are taken."""

    busy: int | None
    memory: int


def held_by(found: Mapping[str, Sequence[OnDevice]], shares: Sequence[DeviceShare]) -> str:
    """Who is on those of the shares that are whole devices, where others have no business; empty: nobody."""
    whole = [share.device for share in shares if share.units == GPU_UNITS and not share.mig]
    return ", ".join(f"process {one.pid} on {name}: {one.memory} MiB" for name in whole for one in found.get(name, ()))


class Devices(Protocol):
    """The devices of one kind on this node. All but `inventory` and `environment` may ask the driver, and so wait for it."""

    @property
    def isolation(self) -> str:
        """What keeps a job to its own devices, as long as nothing more is done about it: a level of `contracts.values.isolation`."""

    @property
    def suspension(self) -> str:
        """How a job that stands still comes off its devices, as facts name it; empty where it cannot (R29)."""

    @property
    def labels(self) -> Mapping[str, str]:
        """What pools may want to select nodes by: vendor, model, driver, and what that can do."""

    @property
    def quick(self) -> bool:
        """Whether asking costs nothing, so that it may be done in the loop."""

    def inventory(self) -> tuple[Device, ...]:
        """Every device, in the order of its number, as it was at the start."""

    def environment(self, shares: Sequence[DeviceShare]) -> dict[str, str]:
        """The variables through which a job finds its devices, and no others; one that is here no more is left out."""

    def nodes(self, shares: Sequence[DeviceShare]) -> tuple[str, ...]:
        """The device nodes below /dev that a job with these shares has to open."""

    def holder(self, shares: Sequence[DeviceShare]) -> str:
        """Who is still on these devices, of which he was given all; empty where they are free."""

    def on_devices(self) -> dict[str, list[OnDevice]]:
        """Who holds memory of each device that can be asked."""

    def samples(self) -> dict[str, Sample]:
        """What each device that can be asked does."""

    def busy_of(self, since: int) -> dict[int, int]:
        """By process, the percent of a device's time that it used since a moment (microseconds since 1970), as far as anybody can say."""

    def look(self, at: int) -> dict[str, Trouble | None]:
        """Look at the health of all; of those that were drained by it, or came back, what is wrong with them now."""

    def listen(self, report: Callable[[str, Trouble], None]) -> None:
        """Tell what drains a device as soon as its driver says so; `report` may be called in another thread."""

    def close(self) -> None:
        """No more calls."""
