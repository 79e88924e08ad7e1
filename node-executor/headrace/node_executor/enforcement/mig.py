"""Slices of a GPU in MIG mode: made for a lease, exactly where the grant says, and destroyed after it (R4).

Strategy: the journal has what is about to be made before, and what was made after, so that a later executor knows after a crash which
instances are the node's: those are destroyed unless their lease still runs. All other instances belong to others and are left alone;
their device is reported as long as they exist, because grants cannot be placed around them. Everything that changes instances is called
in one thread: drivers may fail if several do. A slice that the driver does not release is tried again with every look, and reported once
it has taken too long.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
import structlog

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.isolation import LEVELS
from headrace.node_executor.devices.health import Trouble
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.devices.nvml_library import IN_USE, INSUFFICIENT_RESOURCES, INVALID, NvmlError
from headrace.node_executor.devices.nvml_values import Instance, SliceKind
from headrace.node_executor.enforcement import CannotEnclose, Enclosure, EnforcementRequest

TRIES_BEFORE_STUCK = 10
CAPABILITIES = "/proc/driver/nvidia-caps/mig-minors"
HARDWARE = LEVELS[-1]

_log = structlog.get_logger("headrace.node_executor")


class MadeSlice(msgspec.Struct, frozen=True):
    """A slice of ours; `instance` -1: about to be made, or perhaps made just before a crash."""

    lease: str
    device: str
    kind: int
    start: int
    instance: int = -1


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the journal: one or several slices that exist, or a lease whose slices are gone."""

    made: MadeSlice | None = None
    gone: str = ""


_decoder = msgspec.json.Decoder(_Line)


class MigJournal:
    """The file at `path`; `ours`: its slices by lease."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.ours: dict[str, list[MadeSlice]] = {}
        with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
            for line in file:
                self._read(line)
        self._rewrite()

    def _read(self, line: bytes) -> None:
        with contextlib.suppress(msgspec.DecodeError):  # cut short by a crash: its slice was not made
            read = _decoder.decode(line)
            if read.made is not None:
                self._put(read.made)
            elif read.gone:
                self.ours.pop(read.gone, None)

    def _put(self, made: MadeSlice) -> None:
        same = (made.device, made.kind, made.start)
        others = [one for one in self.ours.get(made.lease, []) if (one.device, one.kind, one.start) != same]
        self.ours[made.lease] = [*others, made]

    def note(self, made: MadeSlice) -> None:
        """Note a slice that is about to be made, or has been. Raises `OSError`; then it must not be made."""
        self._append(_Line(made=made))
        self._put(made)

    def forget(self, lease: str) -> None:
        """Note that no slice of the lease is left."""
        if self.ours.pop(lease, None) is not None:
            with contextlib.suppress(OSError):
                self._append(_Line(gone=lease))

    def _append(self, line: _Line) -> None:
        with open(self._path, "ab", opener=_private) as file:
            file.write(msgspec.json.encode(line) + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _rewrite(self) -> None:
        fresh = f"{self._path}.new"
        with open(fresh, "wb", opener=_private) as file:
            file.writelines(
                msgspec.json.encode(_Line(made=made)) + b"\n" for made in (one for those in self.ours.values() for one in those)
            )
        os.replace(fresh, self._path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


class Reconciled(NamedTuple):
    """Result of a reconciliation: slices of ours that were destroyed, and by device those of others."""

    destroyed: int
    foreign: dict[str, tuple[str, ...]]


class MigMechanism:
    """Slices of the GPUs of `devices`. `report`: called with a device that is unusable because of a slice, or usable again (None)."""

    name = "MIG"

    def __init__(self, devices: NvmlDevices, journal: MigJournal, report: Callable[[str, Trouble | None], None]) -> None:
        self._devices = devices
        self._nvml = devices.nvml
        self._journal = journal
        self._report = report
        self._kinds: dict[str, dict[str, SliceKind]] = {}
        self._tries: dict[str, int] = {}
        self._stuck_on: dict[str, Trouble] = {}
        self._foreign_on: dict[str, Trouble] = {}
        self._reported: dict[str, Trouble] = {}

    def prove(self) -> str:
        """Return the level if instances can be made and destroyed: the smallest slice of a GPU in MIG mode without other instances.

        If all such GPUs are in use, permission to list their instances has to do: it implies permission to make them.
        """
        if not self._cut:
            return ""
        try:
            empty = next((name for name in self._cut if not self._instances(name)), None)
            if empty is not None:
                kind = min(self._kinds_of(empty).values(), key=lambda one: (one.size, one.compute, one.name))
                uuid = self._devices.gpu(empty).uuid
                self._nvml.destroy_instance(uuid, self._nvml.make_instance(uuid, kind, 0))
        except NvmlError as error:
            _log.warning("no_slices", reason=str(error), help="making slices takes root, or read access to mig/config")
            return ""
        return HARDWARE

    def reconcile(self, alive: Iterable[str]) -> Reconciled:
        """After a start: leases in `alive` keep their slices, other slices of ours are destroyed, and those of others are reported."""
        keep, destroyed = set(alive), 0
        for device in self._cut:
            try:
                for one in self._instances(device):
                    lease = self._whose(device, one)
                    if lease and lease not in keep:
                        self._nvml.destroy_instance(self._devices.gpu(device).uuid, one.id)
                        destroyed += 1
            except NvmlError as error:
                _log.warning("slices_unreconciled", device=device, reason=str(error))
        for lease in [lease for lease in self._journal.ours if lease not in keep]:
            self._forget_if_gone(lease)
        return Reconciled(destroyed, self.check_foreign_slices())

    def check_foreign_slices(self) -> dict[str, tuple[str, ...]]:
        """Return the slices of others by device as they are now; changes are reported."""
        foreign: dict[str, tuple[str, ...]] = {}
        for device in self._cut:
            try:
                those = [one for one in self._instances(device) if not self._whose(device, one)]
            except NvmlError as error:  # the last report still holds
                _log.debug("slices_unseen", device=device, reason=str(error))
                continue
            if those:
                foreign[device] = names = tuple(f"{self._name_of(device, one.kind)}@{one.start}" for one in those)
                self._foreign_on[device] = Trouble(
                    "foreign_slice", len(names), f"slices of others are on it: {', '.join(names)}"
                )
            else:
                self._foreign_on.pop(device, None)
            self._report_changes(device)
        return foreign

    def _report_changes(self, device: str) -> None:
        """Report what is wrong with a device because of its slices, or that it is in order again, if that has changed."""
        trouble = self._stuck_on.get(device) or self._foreign_on.get(device)
        if trouble == self._reported.get(device):
            return
        if trouble is not None:
            self._reported[device] = trouble
        else:
            del self._reported[device]
        self._report(device, trouble)

    @property
    def _cut(self) -> list[str]:
        """The devices in MIG mode."""
        return [device for device in self._devices.names if self._devices.gpu(device).mig]

    def _forget_if_gone(self, lease: str) -> None:
        there = False
        for made in self._journal.ours[lease]:
            with contextlib.suppress(NvmlError, KeyError):
                there = there or any(self._whose(made.device, one) == lease for one in self._instances(made.device))
        if not there:
            self._journal.forget(lease)

    def _whose(self, device: str, instance: Instance) -> str:
        """Return the lease of a slice; "" for one of others. A slice at a place where one was about to be made counts as made."""
        for lease, those in self._journal.ours.items():
            for made in those:
                placed = (made.device, made.kind, made.start) == (device, instance.kind, instance.start)
                if placed and made.instance in (-1, instance.id):
                    return lease
        return ""

    def enclose(self, case: EnforcementRequest) -> Enclosure:
        """Make the slices of a lease; a job sees them by their names."""
        names, nodes = [], []
        try:
            for share in case.shares:
                made = self._make(case.lease, share)
                uuid = self._devices.gpu(share.device).uuid
                names.append(self._nvml.slice_name(uuid, made.instance))
                nodes += capability_nodes(self._devices.gpu(share.device).minor, made.instance)
        except (NvmlError, OSError) as error:
            self.open(case.lease)
            raise CannotEnclose(f"its slice cannot be made: {error}") from None
        return _seen(names)._replace(nodes=tuple(nodes))

    def _make(self, lease: str, share: DeviceShare) -> MadeSlice:
        if not self._devices.gpu(share.device).mig:
            raise OSError(f"{share.device} is not in MIG mode")
        kind = self._kinds_of(share.device).get(share.mig)
        if kind is None or not kind.size:
            raise OSError(f"{share.device} offers no slice {share.mig}")
        uuid = self._devices.gpu(share.device).uuid
        made = MadeSlice(lease, share.device, kind.id, share.start)
        placed = [one for one in self._instances(share.device) if (one.kind, one.start) == (kind.id, share.start)]
        there = next((one for one in placed if self._whose(share.device, one) == lease), None)
        if there is None:
            self._journal.note(made)
            made = msgspec.structs.replace(made, instance=self._made_at(uuid, kind, share.start))
        else:
            made = msgspec.structs.replace(made, instance=there.id)
        self._journal.note(made)
        return made

    def _made_at(self, uuid: str, kind: SliceKind, start: int) -> int:
        """Make a slice and return its number. Tried once more if the driver has no room: a slice may just be in removal."""
        try:
            return self._nvml.make_instance(uuid, kind, start)
        except NvmlError as error:
            if error.code != INSUFFICIENT_RESOURCES:
                raise
        time.sleep(0.5)
        return self._nvml.make_instance(uuid, kind, start)

    def adopt(self, case: EnforcementRequest) -> Enclosure:
        """Return the slices of a lease by the journal; a slice that is gone has no name any more."""
        names = []
        for made in self._journal.ours.get(case.lease, ()):
            with contextlib.suppress(NvmlError):
                names.append(self._nvml.slice_name(self._devices.gpu(made.device).uuid, made.instance))
        return _seen(names)

    def open(self, lease: str) -> str:
        """Destroy its slices; returns what is in the way, if they are still in use."""
        for made in self._journal.ours.get(lease, ()):
            try:
                self._destroy(made)
            except NvmlError as error:
                if error.code in (IN_USE, INVALID):
                    return self._stuck(lease, made)
                _log.warning("slice_not_destroyed", lease=lease, reason=str(error))
                return f"slice {made.start} of {made.device}: {error}"
        if self._tries.pop(lease, 0) >= TRIES_BEFORE_STUCK:
            for made in self._journal.ours.get(lease, ()):
                self._stuck_on.pop(made.device, None)
                self._report_changes(made.device)
        self._journal.forget(lease)
        return ""

    def _destroy(self, made: MadeSlice) -> None:
        uuid = self._devices.gpu(made.device).uuid
        for one in self._nvml.instances(uuid):
            if (one.kind, one.start) == (made.kind, made.start) and made.instance in (-1, one.id):
                self._nvml.destroy_instance(uuid, one.id)

    def _stuck(self, lease: str, made: MadeSlice) -> str:
        tries = self._tries[lease] = self._tries.get(lease, 0) + 1
        where = f"{self._name_of(made.device, made.kind)}@{made.start}"
        if tries == TRIES_BEFORE_STUCK:
            stuck = Trouble("stuck_slice", made.start, f"the driver does not let go of slice {where}")
            self._stuck_on[made.device] = stuck
            self._report_changes(made.device)
        return f"slice {where} of {made.device} is in use"

    def _instances(self, device: str) -> Sequence[Instance]:
        return self._nvml.instances(self._devices.gpu(device).uuid)

    def _kinds_of(self, device: str) -> dict[str, SliceKind]:
        if device not in self._kinds:
            self._kinds[device] = {kind.name: kind for kind in self._nvml.kinds(self._devices.gpu(device).uuid)}
        return self._kinds[device]

    def _name_of(self, device: str, kind: int) -> str:
        return next((one.name for one in self._kinds_of(device).values() if one.id == kind), str(kind))


def _seen(names: Sequence[str]) -> Enclosure:
    seen = ",".join(names)
    return Enclosure(HARDWARE, {"CUDA_VISIBLE_DEVICES": seen, "NVIDIA_VISIBLE_DEVICES": seen})


def capability_nodes(gpu: int, instance: int, table: str = CAPABILITIES) -> list[str]:
    """Return the device nodes that open a slice, as the driver lists them; empty if it does not."""
    wanted = (f"gpu{gpu}/gi{instance}/access", f"gpu{gpu}/gi{instance}/ci0/access")
    found = []
    with contextlib.suppress(OSError), open(table, encoding="utf-8") as file:
        for line in file:
            name, _, minor = line.strip().partition(" ")
            if name in wanted:
                found.append(f"/dev/nvidia-caps/nvidia-cap{minor}")
    return found
