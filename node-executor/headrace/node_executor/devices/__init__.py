"""The GPUs of the node behind one interface.

It answers the question: *which devices are here, are they in order, which processes use them, and how does a job see exactly its own?*

- `Devices` is the interface. `nvml` drives NVIDIA's GPUs (`nvml_library` wraps NVML), `amd` AMD's (`amd_library`); `simulated` has
  devices without hardware, for laptops, tests and the demonstration; `discovery` finds those that `--devices` asks for.
- `health` judges, purely, what drivers report; `names` has the names of models; `exclusive_lock` lets NVML be reinitialised while no call
  to it is under way.

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
    """The argument `--devices` is invalid here; the message says what to write."""


class OnDevice(NamedTuple):
    """A process that holds memory of a device (MiB); `instance`: in which slice of it, by the driver's number."""

    pid: int
    memory: int
    instance: int | None = None


class Sample(NamedTuple):
    """Load of a device: percent of the time in which it computed (None: unknown), and used memory in MiB."""

    busy: int | None
    memory: int


def held_by(found: Mapping[str, Sequence[OnDevice]], shares: Sequence[DeviceShare]) -> str:
    """Return a process on one of the shares that are whole devices, which no other process may use; empty: none."""
    whole = [share.device for share in shares if share.units == GPU_UNITS and not share.mig]
    return ", ".join(f"process {one.pid} on {name}: {one.memory} MiB" for name in whole for one in found.get(name, ()))


class Devices(Protocol):
    """The devices of one kind on this node. All but `inventory` and `environment` may ask the driver, and so wait for it."""

    @property
    def isolation(self) -> str:
        """The level at which jobs are kept to their devices without further enforcement (`contracts.values.isolation`)."""

    @property
    def suspension(self) -> str:
        """How a suspended job comes off its devices, as facts name it; empty if not supported (R29)."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels for pools' selectors: vendor, model, driver, and the driver's features."""

    @property
    def quick(self) -> bool:
        """True if calls return without delay, so that they may be made in the loop."""

    def inventory(self) -> tuple[Device, ...]:
        """Return every device, in the order of its number, as it was at the start."""

    def environment(self, shares: Sequence[DeviceShare]) -> dict[str, str]:
        """Return the variables through which a job finds its devices, and no others; a device that is gone is left out."""

    def nodes(self, shares: Sequence[DeviceShare]) -> tuple[str, ...]:
        """Return the device nodes below /dev that a job with these shares has to open."""

    def holder(self, shares: Sequence[DeviceShare]) -> str:
        """Return who is still on these devices, each held as a whole; empty if they are free."""

    def on_devices(self) -> dict[str, list[OnDevice]]:
        """Return the processes on each device that answers."""

    def samples(self) -> dict[str, Sample]:
        """Return the load of each device that answers."""

    def busy_of(self, since: int) -> dict[int, int]:
        """Return by process the percent of a device's time used since a moment (microseconds since 1970), as far as known."""

    def check_health(self, at: int) -> dict[str, Trouble | None]:
        """Check the health of all; return those drained or back in order since, with what is wrong with them now."""

    def listen(self, report: Callable[[str, Trouble], None]) -> None:
        """Report what drains a device as soon as its driver says so; `report` may be called in another thread."""

    def close(self) -> None:
        """No more calls follow."""
