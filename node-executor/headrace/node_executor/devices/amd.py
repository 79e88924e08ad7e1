"""AMD's Instinct GPUs by `amdsmi`, which comes with ROCm: devices, processes on them, and health.

Strategy: what `amdsmi` calls a device may be one partition of a GPU. Partitions are as an administrator has set them, and each is a
device of its own here, whose memory the kernel driver keeps to its size. The library is imported on demand: it is not a dependency of the
package, and without the driver its import fails in several ways.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import structlog

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.nodes import Device
from headrace.node_executor.devices import DevicesUnknown, OnDevice, Sample, held_by
from headrace.node_executor.devices.health import Condition, HealthReading, Trouble
from headrace.node_executor.devices.names import model_name, short_names

MIB = 1024 * 1024
CONTROL_NODES = ("/dev/kfd",)

_log = structlog.get_logger("headrace.node_executor")


class _Gpu(NamedTuple):
    handle: Any
    uuid: str
    model: str
    memory: int
    render: str
    number: int


def amd_library() -> Any:
    """Import and initialise the module `amdsmi`. Raises `DevicesUnknown`."""
    try:
        library = importlib.import_module("amdsmi")
        library.amdsmi_init(library.AmdSmiInitFlags.INIT_AMD_GPUS)
    except Exception as error:  # noqa: BLE001 - without the driver its import raises whatever comes to its mind
        raise DevicesUnknown(f"amdsmi cannot be used: {str(error) or type(error).__name__}; is ROCm installed here?") from None
    return library


class AmdDevices:
    """The GPUs, or partitions of them, that `library` shows."""

    isolation = "cooperative"
    suspension = ""
    quick = False

    def __init__(self, library: Any, now: Callable[[], int] = lambda: time.time_ns() // 1_000) -> None:
        self._library = library
        found = [self._describe(number, handle) for number, handle in enumerate(library.amdsmi_get_processor_handles())]
        names = short_names([gpu.uuid for gpu in found])
        self._gpus = {names[gpu.uuid]: gpu for gpu in found}
        self._conditions = {name: Condition() for name in self._gpus}
        self.check_health(now())

    def _describe(self, number: int, handle: Any) -> _Gpu:
        library = self._library
        asic = self._asked(library.amdsmi_get_gpu_asic_info, handle) or {}
        vram = self._asked(library.amdsmi_get_gpu_vram_usage, handle) or {}
        where = self._asked(library.amdsmi_get_gpu_enumeration_info, handle) or {}
        uuid = str(self._asked(library.amdsmi_get_gpu_device_uuid, handle) or f"amd{number}")
        memory = int(vram.get("vram_total", 0))
        model = model_name(str(asic.get("market_name", "")), memory)
        return _Gpu(handle, uuid, model, memory, f"/dev/dri/renderD{where.get('drm_render', 128 + number)}", number)

    def _asked(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return the library's answer; None if this GPU or driver has none."""
        try:
            return call(*arguments)
        except self._library.AmdSmiException as error:
            _log.debug("amd_unanswered", call=call.__name__, reason=str(error))
            return None

    @property
    def labels(self) -> Mapping[str, str]:
        models = sorted({gpu.model for gpu in self._gpus.values()})
        return {"gpu.vendor": "amd", "gpu.model": "+".join(models)[:127]}

    def inventory(self) -> tuple[Device, ...]:
        """Return every GPU or partition, in the driver's order."""
        return tuple(
            Device(
                device=name,
                model=gpu.model,
                memory=gpu.memory,
                unfit=trouble.message if (trouble := self._conditions[name].trouble) is not None else "",
            )
            for name, gpu in self._gpus.items()
        )

    def environment(self, shares: Sequence[DeviceShare]) -> dict[str, str]:
        """Return the numbers of its GPUs, for the outermost of ROCm's filters: the inner ones count among those."""
        there = [self._gpus[share.device].number for share in shares if share.device in self._gpus]
        return {"ROCR_VISIBLE_DEVICES": ",".join(map(str, there))}

    def nodes(self, shares: Sequence[DeviceShare]) -> tuple[str, ...]:
        """Return its GPUs' nodes, and the one that every ROCm program opens."""
        there = [self._gpus[share.device].render for share in shares if share.device in self._gpus]
        return (*there, *CONTROL_NODES) if shares else ()

    def holder(self, shares: Sequence[DeviceShare]) -> str:
        return held_by(self.on_devices(), shares)

    def on_devices(self) -> dict[str, list[OnDevice]]:
        """Return the processes on each GPU that answers."""
        found = {}
        for name, gpu in self._gpus.items():
            listed = self._asked(self._library.amdsmi_get_gpu_process_list, gpu.handle)
            if listed is not None:
                found[name] = [OnDevice(int(one["pid"]), int(one.get("mem", 0)) // MIB) for one in listed]
        return found

    def samples(self) -> dict[str, Sample]:
        """Return the load of each GPU that answers."""
        found = {}
        for name, gpu in self._gpus.items():
            activity = self._asked(self._library.amdsmi_get_gpu_activity, gpu.handle) or {}
            vram = self._asked(self._library.amdsmi_get_gpu_vram_usage, gpu.handle)
            busy = activity.get("gfx_activity")
            if vram is not None:
                found[name] = Sample(busy if isinstance(busy, int) else None, int(vram.get("vram_used", 0)))
        return found

    def busy_of(self, since: int) -> dict[int, int]:  # noqa: ARG002 - the face of all devices
        """Return {}: the driver does not tell."""
        return {}

    def check_health(self, at: int) -> dict[str, Trouble | None]:
        """Compare the counted errors of each GPU with those before."""
        readings = {name: self._read_health(gpu) for name, gpu in self._gpus.items()}
        return {
            name: self._conditions[name].trouble
            for name, reading in readings.items()
            if self._conditions[name].seen(reading, at)
        }

    def _read_health(self, gpu: _Gpu) -> HealthReading:
        errors = self._asked(self._library.amdsmi_get_gpu_total_ecc_count, gpu.handle)
        if errors is None and self._asked(self._library.amdsmi_get_gpu_device_uuid, gpu.handle) is None:
            return HealthReading(lost=True)
        return HealthReading(recovery=0, uncorrected=int((errors or {}).get("uncorrectable_count", 0)))

    def listen(self, report: Callable[[str, Trouble], None]) -> None:
        """Does nothing: the driver sends no events; the GPUs are looked at regularly."""

    def close(self) -> None:
        """Close the driver's library."""
        self._asked(self._library.amdsmi_shut_down)
