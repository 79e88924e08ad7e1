"""NVIDIA's GPUs by NVML: devices, processes on them, and health.

Strategy: a device is named by its UUID, because numbers change when one falls off the bus. Its slices, and whatever else differs from one
lease to the next, belong to `enforcement`: it decides which of them a job sees.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import structlog

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.nodes import Device
from headrace.node_executor.devices import OnDevice, Sample, held_by
from headrace.node_executor.devices.health import Condition, HealthReading, Trouble, trouble_of_xid
from headrace.node_executor.devices.names import model_name, short_names
from headrace.node_executor.devices.nvml_library import DOUBLE_BIT_ECC, INVALID, LOST, UNINITIALIZED, Nvml, NvmlError
from headrace.node_executor.devices.nvml_values import Gpu

WAIT_MS = 250
"""Milliseconds of one wait for events: NVML cannot be reinitialised meanwhile, and during that no other call is answered."""

BEGIN_EVERY = 30_000_000
"""Microseconds between two reinitialisations of NVML because of a lost GPU."""

SUSPENDS_FROM = 570
LIMITS_FROM = 615
CONTROL_NODES = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")

_GONE = frozenset({LOST, UNINITIALIZED})

_log = structlog.get_logger("headrace.node_executor")


class NvmlDevices:
    """The GPUs that `nvml` shows. `now`: microseconds since 1970."""

    isolation = "cooperative"
    quick = False

    def __init__(self, nvml: Nvml, now: Callable[[], int] = lambda: time.time_ns() // 1_000) -> None:
        self.nvml = nvml
        self._now = now
        self._gpus: dict[str, Gpu] = {}
        names = short_names(list(nvml.uuids))
        for uuid, name in names.items():
            try:
                self._gpus[name] = nvml.gpu(uuid)
            except NvmlError as error:  # the others still answer
                _log.error("gpu_left_out", device=name, reason=str(error))
        self._nvlink = self._groups()
        self._by_uuid = {gpu.uuid: name for name, gpu in self._gpus.items()}
        self._driver = nvml.driver
        self._lock = threading.Lock()
        self._conditions = {name: Condition() for name in self._gpus}
        self._began_at = 0
        self._listener: threading.Thread | None = None
        self._deaf = threading.Event()
        self._closing = threading.Event()
        self.check_health(now())  # so that existing trouble is reported at once

    @property
    def suspension(self) -> str:
        """Return "": memory is moved off a GPU elsewhere (`suspension`)."""
        return ""

    @property
    def major(self) -> int:
        """The driver's branch, such as 580."""
        head = self._driver.partition(".")[0]
        return int(head) if head.isdecimal() else 0

    @property
    def labels(self) -> Mapping[str, str]:
        models = sorted({device.model for device in self.inventory()})
        cut = [gpu.mig for gpu in self._gpus.values()]
        mig = "on" if any(cut) else "off" if any(one is not None for one in cut) else "none"
        return {
            "gpu.vendor": "nvidia",
            "gpu.model": "+".join(models)[:127],
            "gpu.driver": self._driver,
            "gpu.cuda": self.nvml.cuda,
            "gpu.mig": mig,
            "gpu.checkpoint": "yes" if self.major >= SUSPENDS_FROM else "no",
            "gpu.memory-limits": "yes" if self.major >= LIMITS_FROM else "no",
        }

    def gpu(self, device: str) -> Gpu:
        """Return NVML's description of the device."""
        return self._gpus[device]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all devices."""
        return tuple(self._gpus)

    @property
    def least_used(self) -> str:
        """The device not in MIG mode with the least used memory; "" if none answers."""
        taken = {name: sample.memory for name, sample in self.samples().items() if not self._gpus[name].mig}
        return min(taken, key=lambda name: (taken[name], name), default="")

    def inventory(self) -> tuple[Device, ...]:
        """Return every GPU, in the driver's order."""
        return tuple(
            Device(
                device=name,
                model=model_name(gpu.model, gpu.memory),
                memory=gpu.memory,
                mig=bool(gpu.mig),
                unfit=trouble.message if (trouble := self._conditions[name].trouble) is not None else "",
                nvlink=self._nvlink.get(name, ""),
            )
            for name, gpu in self._gpus.items()
        )

    def _groups(self) -> dict[str, str]:
        """Return the group of each GPU that reaches another one by NVLink, directly or through others (R40). They are looked for once."""
        groups: list[set[str]] = []
        for name, gpu in self._gpus.items():
            near = [group for group in groups if any(self._are_linked(gpu, self._gpus[other]) for other in group)]
            groups = [group for group in groups if group not in near] + [{name}.union(*near)]
        linked = sorted((min(group), group) for group in groups if len(group) > 1)
        return {name: str(number) for number, (_, group) in enumerate(linked) for name in group}

    def _are_linked(self, gpu: Gpu, other: Gpu) -> bool:
        """Whether NVML says that two GPUs are linked; in MIG mode they are not."""
        try:
            return not (gpu.mig or other.mig) and self.nvml.are_linked(gpu.uuid, other.uuid)
        except NvmlError as error:
            _log.warning("nvlink_unknown", gpu=gpu.uuid, other=other.uuid, reason=str(error))
            return False

    def environment(self, shares: Sequence[DeviceShare]) -> dict[str, str]:
        """Return the whole GPUs and fractions by UUID. Slices have no name before they are made (`enforcement.mig`)."""
        seen = ",".join(self._gpus[share.device].uuid for share in shares if not share.mig and share.device in self._gpus)
        return {"CUDA_VISIBLE_DEVICES": seen, "NVIDIA_VISIBLE_DEVICES": seen or "void", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}

    def nodes(self, shares: Sequence[DeviceShare]) -> tuple[str, ...]:
        """Return its GPUs' nodes, and those that every CUDA program opens."""
        if not shares:
            return ()
        there = [self._gpus[share.device] for share in shares if share.device in self._gpus]
        return (*(f"/dev/nvidia{gpu.minor}" for gpu in there), *CONTROL_NODES)

    def holder(self, shares: Sequence[DeviceShare]) -> str:
        return held_by(self.on_devices(), shares)

    def on_devices(self) -> dict[str, list[OnDevice]]:
        """Return the processes on each GPU that answers."""
        found = {}
        for name, gpu in self._gpus.items():
            try:
                found[name] = [OnDevice(*one) for one in self.nvml.processes(gpu.uuid)]
            except NvmlError as error:
                self._complain(name, error)
        return found

    def samples(self) -> dict[str, Sample]:
        """Return the load of each GPU that answers."""
        found = {}
        for name, gpu in self._gpus.items():
            try:
                busy = self.nvml.busy(gpu.uuid)
                found[name] = Sample(busy[0] if busy is not None else None, self.nvml.used(gpu.uuid))
            except NvmlError as error:
                self._complain(name, error)
        return found

    def busy_of(self, since: int) -> dict[int, int]:
        """Return the percent by process of all GPUs; of a process on several the maximum."""
        found: dict[int, int] = {}
        for name, gpu in self._gpus.items():
            try:
                for pid, percent in self.nvml.busy_processes(gpu.uuid, since).items():
                    found[pid] = max(found.get(pid, 0), percent)
            except NvmlError as error:
                self._complain(name, error)
        return found

    def _complain(self, name: str, error: NvmlError) -> None:
        if error.code not in _GONE:  # `check_health` sees that, and reports it once
            _log.warning("gpu_unanswering", device=name, reason=str(error))

    # Health

    def check_health(self, at: int) -> dict[str, Trouble | None]:
        """Look at all; return those whose state has changed."""
        readings = {name: self._read_health(name, gpu) for name, gpu in self._gpus.items()}
        for name in [name for name, reading in readings.items() if reading is not None and reading.lost]:
            if self._is_back(name, at):
                readings[name] = self._read_health(name, self._gpus[name])
        with self._lock:
            return {
                name: self._conditions[name].trouble
                for name, reading in readings.items()
                if reading is not None and self._conditions[name].seen(reading, at)
            }

    def _read_health(self, name: str, gpu: Gpu) -> HealthReading | None:
        try:
            ailing = self.nvml.health_report(gpu.uuid)
        except NvmlError as error:
            self._complain(name, error)
            return HealthReading(lost=True) if error.code in _GONE else None
        return HealthReading(False, ailing.recovery, ailing.rows_pending, ailing.rows_failed, ailing.uncorrected)

    def _is_back(self, name: str, at: int) -> bool:
        """Return whether a lost GPU answers after all, found anew; the driver may give it another number now."""
        uuid = self._gpus[name].uuid
        try:
            found = self.nvml.find_again(uuid)
            if not found and at - self._began_at >= BEGIN_EVERY:
                self._began_at = at
                self.nvml.begin_again()
                found = self.nvml.find_again(uuid)
            if found:
                self._gpus[name] = self.nvml.gpu(uuid)
                self._deaf.set()
        except NvmlError as error:
            self._complain(name, error)
            return False
        return found

    def listen(self, report: Callable[[str, Trouble], None]) -> None:
        """Wait for events in a thread of its own."""
        self._listener = threading.Thread(target=self._listen, args=(report,), name="nvml-events", daemon=True)
        self._listener.start()

    def _listen(self, report: Callable[[str, Trouble], None]) -> None:
        while not self._closing.is_set():
            self._deaf.clear()
            try:
                events = self.nvml.listen()
                self._receive(events, report)
                self.nvml.close_events(events)
            except NvmlError as error:
                if error.code not in {INVALID, *_GONE}:
                    _log.warning("gpu_events_unheard", reason=str(error), help="health is looked at now and then all the same")
                    return
                self._closing.wait(1.0)

    def _receive(self, events: Any, report: Callable[[str, Trouble], None]) -> None:
        """Receive events until a GPU comes back that is not in this set of events. Raises `NvmlError`."""
        while not self._closing.is_set() and not self._deaf.is_set():
            happened = self.nvml.wait(events, WAIT_MS)
            if happened is None:
                continue
            for name, trouble in self._troubles(happened.uuid, happened.kind, happened.data):
                self._happened(name, trouble, report)
            if not happened.uuid:  # NVML repeats this event
                self._closing.wait(1.0)

    def _troubles(self, uuid: str, kind: int, data: int) -> Iterable[tuple[str, Trouble]]:
        if not uuid:
            return [(name, trouble) for name, trouble in self.check_health(self._now()).items() if trouble is not None]
        name = self._by_uuid.get(uuid, "")
        if kind == DOUBLE_BIT_ECC:
            return [(name, Trouble("ecc", 1, "an uncorrectable error in its memory"))] if name else []
        trouble = trouble_of_xid(data)
        if trouble is None:
            _log.info("xid_of_a_program", device=name, xid=data)
        return [(name, trouble)] if name and trouble is not None else []

    def _happened(self, name: str, trouble: Trouble, report: Callable[[str, Trouble], None]) -> None:
        with self._lock:
            condition = self._conditions[name]
            news = condition.happened(trouble, self._now()) if trouble.cause != "lost" else True
        if news:
            report(name, trouble)

    def close(self) -> None:
        """Stop listening, and close the driver's library."""
        self._closing.set()
        if self._listener is not None:
            self._listener.join(2.0)
        self.nvml.close()
