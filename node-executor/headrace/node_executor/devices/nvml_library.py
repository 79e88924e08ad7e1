"""NVML with this project's terms: what a GPU is, holds and suffers, and its slices; every error is one class, with its code.

Strategy: handles are looked up once and kept, because looking them up walks the driver; that of a lost GPU stays invalid even when the
GPU is back, so it is looked up anew, and if that does not find it NVML is reinitialised while no call is under way. Lists are read as
NVML requires, first the size and then the content. Unknown values give None or an empty result, never an error. Any thread may call;
calls that change instances belong on one (`enforcement.mig`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from ctypes import byref, c_void_p, cast
from typing import Any, TypeVar

import pynvml

from headrace.node_executor.devices.exclusive_lock import ExclusiveLock, together
from headrace.node_executor.devices.nvml_values import Gpu, Happened, HealthReport, Instance, OnGpu, SliceKind

MIB = 1024 * 1024
NOT_SUPPORTED, NO_PERMISSION = pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION
NOT_FOUND = pynvml.NVML_ERROR_NOT_FOUND
LOST, IN_USE, TIMEOUT = pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_IN_USE, pynvml.NVML_ERROR_TIMEOUT
UNINITIALIZED = pynvml.NVML_ERROR_UNINITIALIZED
INSUFFICIENT_RESOURCES, INVALID = pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES, pynvml.NVML_ERROR_INVALID_ARGUMENT
_UNKNOWN_HERE = frozenset({NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND, pynvml.NVML_ERROR_DEPRECATED})
NO_INSTANCE = 0xFFFF_FFFF
NO_LIMIT = 0xFFFF_FFFF_FFFF_FFFF
XID, DOUBLE_BIT_ECC = pynvml.nvmlEventTypeXidCriticalError, pynvml.nvmlEventTypeDoubleBitEccError
EXCLUSIVE_PROCESS = pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
_RECOVERY_ACTION = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
_COMPUTE_KINDS = {1: 0, 2: 1, 3: 2, 4: 3, 7: 4, 8: 5, 6: 6}
"""NVML's number of the compute instance that takes a whole GPU instance, by compute slices."""

T = TypeVar("T")


class NvmlError(Exception):
    """An error of NVML; `code` is its own."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def _result(call: Callable[..., T], *arguments: Any) -> T:
    """Return NVML's answer. Raises `NvmlError`."""
    try:
        return call(*arguments)
    except pynvml.NVMLError as error:
        raise NvmlError(error.value, str(error)) from None


def _maybe(call: Callable[..., T], *arguments: Any, otherwise: Any = None) -> Any:
    """Return NVML's answer; `otherwise` if this GPU or driver does not support the call."""
    try:
        return _result(call, *arguments)
    except NvmlError as error:
        if error.code in _UNKNOWN_HERE:
            return otherwise
        raise


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


class Nvml:
    """NVML, initialised; `close` ends it. Raises `NvmlError` without a driver, a GPU, or permission."""

    def __init__(self) -> None:
        _result(pynvml.nvmlInit)
        self.gate = ExclusiveLock()
        self._handles: dict[str, Any] = {}
        self._find_handles()

    def _find_handles(self) -> None:
        for number in range(_result(pynvml.nvmlDeviceGetCount)):
            try:
                handle = _result(pynvml.nvmlDeviceGetHandleByIndex, number)
                self._handles[_text(_result(pynvml.nvmlDeviceGetUUID, handle))] = handle
            except NvmlError as error:
                if error.code != LOST:
                    raise  # otherwise it was lost before the start, and nothing is known of it

    @together
    def find_again(self, uuid: str) -> bool:
        """Look up a lost GPU; returns whether it answers."""
        for number in range(_result(pynvml.nvmlDeviceGetCount)):  # a lookup by UUID may fail because another GPU is lost
            try:
                handle = _result(pynvml.nvmlDeviceGetHandleByIndex, number)
                if _text(_result(pynvml.nvmlDeviceGetUUID, handle)) == uuid:
                    self._handles[uuid] = handle
                    return True
            except NvmlError as error:
                if error.code not in {LOST, NOT_FOUND, INVALID, UNINITIALIZED}:
                    raise
        return False

    def begin_again(self) -> None:
        """Have NVML look for its GPUs again; sets of events are void after it. Raises `NvmlError`; then nothing answers."""
        with self.gate.alone():
            with contextlib.suppress(NvmlError):  # after a failed attempt nothing has to be ended
                _result(pynvml.nvmlShutdown)
            _result(pynvml.nvmlInit)
            self._find_handles()

    def close(self) -> None:
        """Shut NVML down; no calls may follow."""
        _result(pynvml.nvmlShutdown)

    @property
    def uuids(self) -> tuple[str, ...]:
        """UUIDs of every GPU, in the driver's order."""
        return tuple(self._handles)

    @property
    def driver(self) -> str:
        """The driver's version, such as `580.95.05`."""
        return _text(_result(pynvml.nvmlSystemGetDriverVersion))

    @property
    def cuda(self) -> str:
        """The version of CUDA that the driver supports, such as `13.0`."""
        version = _result(pynvml.nvmlSystemGetCudaDriverVersion_v2)
        return f"{version // 1000}.{version % 1000 // 10}"

    @together
    def gpu(self, uuid: str) -> Gpu:
        """Return the GPU's description."""
        handle = self._handles[uuid]
        mode = _maybe(pynvml.nvmlDeviceGetMigMode, handle)
        return Gpu(
            uuid,
            _text(_result(pynvml.nvmlDeviceGetName, handle)),
            _result(pynvml.nvmlDeviceGetMemoryInfo, handle).total // MIB,
            None if mode is None else bool(mode[0]),
            _result(pynvml.nvmlDeviceGetMinorNumber, handle),
            _text(_result(pynvml.nvmlDeviceGetPciInfo, handle).busId),
        )

    @together
    def processes(self, uuid: str) -> list[OnGpu]:
        """Return the processes that hold memory of it, in all its instances."""
        found = _result(pynvml.nvmlDeviceGetComputeRunningProcesses, self._handles[uuid])
        return [
            OnGpu(
                one.pid,
                (one.usedGpuMemory or 0) // MIB,
                None if one.gpuInstanceId in (None, NO_INSTANCE) else one.gpuInstanceId,
            )
            for one in found
        ]

    @together
    def busy(self, uuid: str) -> tuple[int, int] | None:
        """Return the percent of time in which kernels ran, and in which memory moved; None in MIG mode, where it is unknown."""
        rates = _maybe(pynvml.nvmlDeviceGetUtilizationRates, self._handles[uuid])
        return None if rates is None else (rates.gpu, rates.memory)

    @together
    def busy_processes(self, uuid: str, since: int) -> dict[int, int]:
        """Return by process the percent of the multiprocessors' time since a moment (microseconds since 1970), as far as known."""
        try:
            samples = _maybe(pynvml.nvmlDeviceGetProcessUtilization, self._handles[uuid], since, otherwise=())
        except NvmlError as error:
            if error.code in (0, NOT_FOUND):  # the binding raises the code 0 if nothing was sampled
                return {}
            raise
        return {one.pid: max(0, min(100, one.smUtil)) for one in samples}

    @together
    def used(self, uuid: str) -> int:
        """Return the used memory in MiB, by all processes."""
        return int(_result(pynvml.nvmlDeviceGetMemoryInfo, self._handles[uuid]).used // MIB)

    # Health

    @together
    def health_report(self, uuid: str) -> HealthReport:
        """Return the GPU's health. Raises `NvmlError`, with `LOST` for a GPU that is gone."""
        handle = self._handles[uuid]
        errors = _maybe(  # first, because of these calls only this one is documented to say that a GPU is lost
            pynvml.nvmlDeviceGetTotalEccErrors,
            handle,
            pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            pynvml.NVML_VOLATILE_ECC,
            otherwise=0,
        )
        values = _maybe(pynvml.nvmlDeviceGetFieldValues, handle, [_RECOVERY_ACTION], otherwise=())
        recovery = next((one.value.uiVal for one in values if one.nvmlReturn == pynvml.NVML_SUCCESS), None)
        rows = _maybe(pynvml.nvmlDeviceGetRemappedRows, handle, otherwise=(0, 0, 0, 0))
        return HealthReport(recovery, bool(rows[2]), bool(rows[3]), errors)

    @together
    def listen(self) -> Any:
        """Return a set of events of all GPUs that answer, for `wait`; `close_events` ends it."""
        events = _result(pynvml.nvmlEventSetCreate)
        for handle in self._handles.values():
            try:
                kinds = _maybe(pynvml.nvmlDeviceGetSupportedEventTypes, handle, otherwise=0) & (XID | DOUBLE_BIT_ECC)
                if kinds:
                    _maybe(pynvml.nvmlDeviceRegisterEvents, handle, kinds, events)
            except NvmlError as error:
                if error.code != LOST:
                    raise
        return events

    @together
    def close_events(self, events: Any) -> None:
        """End a set of events."""
        with contextlib.suppress(NvmlError):  # NVML was reinitialised since
            _result(pynvml.nvmlEventSetFree, events)

    @together
    def wait(self, events: Any, timeout_ms: int) -> Happened | None:
        """Return the next event; None if nothing happened in time. Of a lost GPU the UUID is empty."""
        try:
            found = _result(pynvml.nvmlEventSetWait, events, timeout_ms)
        except NvmlError as error:
            if error.code == TIMEOUT:
                return None
            if error.code == LOST:
                return Happened("", 0, 0)
            raise
        # A GPU that is lost by now does not say its UUID any more.
        names = {cast(handle, c_void_p).value: uuid for uuid, handle in self._handles.items()}
        uuid = names.get(cast(found.device, c_void_p).value) or _text(_result(pynvml.nvmlDeviceGetUUID, found.device))
        return Happened(uuid, found.eventType, found.eventData)

    # Slices

    @together
    def kinds(self, uuid: str) -> tuple[SliceKind, ...]:
        """Return the slices that it can be cut into; empty if it cannot be cut."""
        return tuple(self._kinds(self._handles[uuid]))

    def _kinds(self, handle: Any) -> Iterator[SliceKind]:
        for number in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
            try:
                info = _maybe(pynvml.nvmlDeviceGetGpuInstanceProfileInfo, handle, number, 2)
            except NvmlError as error:
                if error.code == INVALID:
                    return
                raise
            if info is not None:
                name = _text(info.name).removeprefix("MIG ")
                yield SliceKind(info.id, name, info.sliceCount, self._size(handle, info.id), info.memorySizeMB)

    def _size(self, handle: Any, kind: int) -> int:
        """Return the memory slices of a kind; 0 without permission."""
        count = pynvml.c_uint(0)
        try:
            _result(pynvml.nvmlDeviceGetGpuInstancePossiblePlacements, handle, kind, None, byref(count))
            places = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
            _result(pynvml.nvmlDeviceGetGpuInstancePossiblePlacements, handle, kind, places, byref(count))
        except NvmlError as error:
            if error.code in (NO_PERMISSION, NOT_SUPPORTED):
                return 0
            raise
        return int(places[0].size) if count.value else 0

    @together
    def instances(self, uuid: str) -> list[Instance]:
        """Return all GPU instances, including those of others."""
        handle, found = self._handles[uuid], []
        for kind in self._kinds(handle):
            count = pynvml.c_uint(0)
            some = (pynvml.c_nvmlGpuInstance_t * 16)()
            _maybe(pynvml.nvmlDeviceGetGpuInstances, handle, kind.id, some, byref(count))
            for one in some[: count.value]:
                info = _result(pynvml.nvmlGpuInstanceGetInfo, one)
                found.append(Instance(info.id, info.profileId, info.placement.start, info.placement.size))
        return sorted(found, key=lambda one: one.start)

    @together
    def make_instance(self, uuid: str, kind: SliceKind, start: int) -> int:
        """Make a GPU instance at this place, with one compute instance that takes all of it; returns its number."""
        place = pynvml.c_nvmlGpuInstancePlacement_t(start, kind.size)
        made = _result(pynvml.nvmlDeviceCreateGpuInstanceWithPlacement, self._handles[uuid], kind.id, byref(place))
        try:
            info = _result(
                pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo,
                made,
                _COMPUTE_KINDS[kind.compute],
                pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED,
            )
            _result(pynvml.nvmlGpuInstanceCreateComputeInstance, made, info.id)
        except NvmlError:
            _result(pynvml.nvmlGpuInstanceDestroy, made)
            raise
        return int(_result(pynvml.nvmlGpuInstanceGetInfo, made).id)

    @together
    def slice_name(self, uuid: str, instance: int) -> str:
        """Return the name by which a program finds a GPU instance: `MIG-...`."""
        made = _result(pynvml.nvmlDeviceGetGpuInstanceById, self._handles[uuid], instance)
        compute = _result(pynvml.nvmlGpuInstanceGetComputeInstanceById, made, 0)
        return _text(_result(pynvml.nvmlDeviceGetUUID, _result(pynvml.nvmlComputeInstanceGetInfo, compute).device))

    @together
    def destroy_instance(self, uuid: str, instance: int) -> None:
        """Destroy a GPU instance and its content; no effect if it is gone already. Raises `NvmlError`, `IN_USE` among them."""
        try:
            made = _result(pynvml.nvmlDeviceGetGpuInstanceById, self._handles[uuid], instance)
        except NvmlError as error:
            if error.code == NOT_FOUND:
                return
            raise
        for compute in self._compute_instances(made):
            _result(pynvml.nvmlComputeInstanceDestroy, compute)
        _result(pynvml.nvmlGpuInstanceDestroy, made)

    def _compute_instances(self, made: Any) -> Iterator[Any]:
        for number in range(8):
            try:
                yield _result(pynvml.nvmlGpuInstanceGetComputeInstanceById, made, number)
            except NvmlError as error:
                if error.code not in (NOT_FOUND, INVALID):
                    raise

    # Limits

    @together
    def limits_group(self, uuid: str, group: str) -> bool:
        """Return whether this driver limits memory by cgroup (driver 615 and later), for this group."""
        limits = pynvml.c_nvmlGetMemoryLimits_v1_t(group.encode(), 0, 0, 0)
        try:
            return bool(_maybe(pynvml.nvmlDeviceGetMemoryLimits_v1, self._handles[uuid], limits, otherwise=False) is None)
        except NvmlError as error:
            return bool(error.code == NOT_FOUND)

    @together
    def limit_group(self, uuid: str, group: str, mib: int | None) -> None:
        """Limit processes of a cgroup (its whole path) to this memory; None: no limit any more."""
        soft, hard = (0, NO_LIMIT) if mib is None else (mib * MIB, mib * MIB)
        limits = pynvml.c_nvmlSetMemoryLimits_v1_t(group.encode(), soft, hard)
        _result(pynvml.nvmlDeviceSetMemoryLimits_v1, self._handles[uuid], limits)

    @together
    def are_linked(self, one: str, other: str) -> bool:
        """Return whether two GPUs reach each other by NVLink; False if that is unknown."""
        status = _maybe(
            pynvml.nvmlDeviceGetP2PStatus, self._handles[one], self._handles[other], pynvml.NVML_P2P_CAPS_INDEX_NVLINK
        )
        return bool(status == pynvml.NVML_P2P_STATUS_OK)

    @together
    def is_exclusive(self, uuid: str) -> bool:
        """Return whether only one process may use it at a time (compute mode EXCLUSIVE_PROCESS); False in MIG mode."""
        return bool(_maybe(pynvml.nvmlDeviceGetComputeMode, self._handles[uuid]) == EXCLUSIVE_PROCESS)
