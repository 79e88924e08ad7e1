"""Simulated devices without hardware: they can be granted, held and released. Slices of them likewise (R4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.nodes import Device
from headrace.contracts.values.gpu_memory import gigabytes_in_name
from headrace.contracts.values.mig import family_of
from headrace.node_executor.devices import DevicesUnknown, OnDevice, Sample
from headrace.node_executor.devices.health import Trouble

_KIND = re.compile(r"(\d{1,4})x([A-Za-z][A-Za-z0-9.]*(?:-[A-Za-z0-9.]+)*)(\+mig)?(?:\+busy(\d{1,3}))?")
DEFAULT_MEMORY = 80 * 1024
DEVICES_MAX = 1024


class SimulatedDevices:
    """Devices named `gpu0`, `gpu1`, ... of each kind (count, model, whether in MIG mode).

    A model such as `H100-80GB` has the memory that its name says. `loads`: percent of the time in which the devices of a kind say that they
    compute, None: they cannot tell.
    """

    isolation = "simulated"
    quick = True
    suspension = "sigstop"
    """A suspended job holds nothing on devices that do not exist. Does not model moving memory off real ones."""

    def __init__(self, kinds: Sequence[tuple[int, str, bool]], loads: Sequence[int | None] = ()) -> None:
        each = [(model, mig) for count, model, mig in kinds for _ in range(count)]
        self._inventory = tuple(
            Device(device=f"gpu{number}", model=model, memory=_memory(model), mig=mig)
            for number, (model, mig) in enumerate(each)
        )
        reported = [load for (count, *_), load in zip(kinds, loads, strict=False) for _ in range(count)]
        self._loads = {
            device.device: Sample(load, 0) for device, load in zip(self._inventory, reported, strict=False) if load is not None
        }
        self._number = {device.device: str(number) for number, device in enumerate(self._inventory)}

    @property
    def labels(self) -> Mapping[str, str]:
        """Return {}: the operator's labels only."""
        return {}

    def inventory(self) -> tuple[Device, ...]:
        """Return every device, in the order of its number."""
        return self._inventory

    def environment(self, shares: Sequence[DeviceShare]) -> dict[str, str]:
        """Return the numbers of the devices, and the names of slices, as on a real node."""
        return {"CUDA_VISIBLE_DEVICES": ",".join(self._seen(share) for share in shares if share.device in self._number)}

    def _seen(self, share: DeviceShare) -> str:
        number = self._number[share.device]
        return f"MIG-sim-{number}-{share.start}-{share.mig}" if share.mig else number

    def nodes(self, shares: Sequence[DeviceShare]) -> tuple[str, ...]:  # noqa: ARG002 - the face of all devices
        """Return (): simulated devices have no nodes."""
        return ()

    def holder(self, shares: Sequence[DeviceShare]) -> str:  # noqa: ARG002 - the face of all devices
        """Return "": no process can be on them."""
        return ""

    def on_devices(self) -> dict[str, list[OnDevice]]:
        """Return no processes: once a job's processes are gone, nothing is left on a simulated device."""
        return {}

    def samples(self) -> dict[str, Sample]:
        """Return the load that they were given: nothing computes on them."""
        return self._loads

    def busy_of(self, since: int) -> dict[int, int]:  # noqa: ARG002 - the face of all devices
        """Return {}: no process uses them."""
        return {}

    def check_health(self, at: int) -> dict[str, Trouble | None]:  # noqa: ARG002 - the face of all devices
        """Return {}: simulated devices never fail."""
        return {}

    def listen(self, report: Callable[[str, Trouble], None]) -> None:
        """Does nothing: they have no events."""

    def close(self) -> None:
        """Does nothing: they hold nothing open."""


def simulated(text: str) -> SimulatedDevices:
    """Return the devices for `8xH100-80GB`, `4xH100-80GB+mig,2xA100-40GB` or `8xH100-80GB+busy40`. Raises `DevicesUnknown` if malformed."""
    kinds, loads = [], []
    for part in text.split(","):
        match = _KIND.fullmatch(part.strip())
        if match is None:
            raise DevicesUnknown(f"invalid simulated devices {part.strip()!r}; write sim:8xH100-80GB")
        if match[3] and not family_of(match[2]):
            raise DevicesUnknown(f"{match[2]} cannot be cut into MIG slices; write sim:8xH100-80GB+mig")
        if match[4] and int(match[4]) > 100:
            raise DevicesUnknown(f"{part.strip()}: busy is at most 100 percent; write sim:8xH100-80GB+busy40")
        kinds.append((int(match[1]), match[2], bool(match[3])))
        loads.append(int(match[4]) if match[4] else None)
    if sum(count for count, *_ in kinds) > DEVICES_MAX:
        raise DevicesUnknown(f"a node has at most {DEVICES_MAX} devices")
    return SimulatedDevices(kinds, loads)


def _memory(model: str) -> int:
    """Return the MiB from the name: what is sold as 80 GB counts as 80 GiB here."""
    return gigabytes_in_name(model) * 1024 or DEFAULT_MEMORY
