"""What NVML says of GPUs, in this project's terms: values without behaviour."""

from __future__ import annotations

from typing import NamedTuple


class Gpu(NamedTuple):
    """A GPU. `memory` in MiB; `mig`: None if it cannot be sliced, else whether it is in MIG mode; `bus`: its PCI address."""

    uuid: str
    model: str
    memory: int
    mig: bool | None
    minor: int
    bus: str


class OnGpu(NamedTuple):
    """A process that holds memory of a GPU (MiB), in which GPU instance, if it is sliced."""

    pid: int
    memory: int
    instance: int | None


class HealthReport(NamedTuple):
    """NVML's report of a GPU's health. `recovery`: None if the driver gives no advice."""

    recovery: int | None = None
    rows_pending: bool = False
    rows_failed: bool = False
    uncorrected: int = 0


class SliceKind(NamedTuple):
    """A kind of slice of one GPU: its NVML id, name as in `contracts.values.mig`, compute and memory slices, and memory in MiB."""

    id: int
    name: str
    compute: int
    size: int
    memory: int


class Instance(NamedTuple):
    """An existing GPU instance: its number, the id of its kind, its first memory slice, and its number of memory slices."""

    id: int
    kind: int
    start: int
    size: int


class Happened(NamedTuple):
    """An event of a GPU; `data` is the XID if `kind` is that. `uuid` is empty if a GPU is lost and it is unknown which."""

    uuid: str
    kind: int
    data: int
