"""Suspends a job off its devices, and resumes it (R29).

Strategy: on NVIDIA's GPUs the driver moves the memory into the job's own (`cuda_call`, in a process of its own, for a bounded time), then
everything of the job is frozen, then the GPU is looked at: only one that is really free counts. If a step fails the job is put back as it
was, and the reason is reported. No record is kept: what has to be restored is asked from the driver, so a suspension outlives the
executor. The order matters: a frozen process can be neither locked nor restored.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from typing import NamedTuple

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices import Devices, cuda_call
from headrace.node_executor.runtimes import Running
from headrace.node_executor.system import orphans
from headrace.node_executor.system.cgroups import LeaseGroup

LOCK_WITHIN = 10.0
CALL_WITHIN, PER_GIB = 20.0, 0.5
"""Seconds that a call may take, and further seconds for each GiB that is moved."""

FREE_WITHIN, LOOK_EVERY = 10.0, 0.05
STILL_WITHIN, STILL_EVERY = 5.0, 0.002
SPARE = 1.1
"""Factor of free host memory over the memory that is moved."""

BY_CHECKPOINT, BY_FREEZING = "cuda-checkpoint", "sigstop"


class CannotSuspend(Exception):
    """The job runs on as before; the message says why."""


class CannotResume(Exception):
    """The job is lost; the message says why."""


class SuspensionTarget(NamedTuple):
    """A job that is to be suspended or resumed."""

    running: Running
    shares: tuple[DeviceShare, ...]
    control: str
    group: LeaseGroup | None
    memory: int


class Suspension:
    """Suspends and resumes jobs on the devices of this node."""

    def __init__(self, devices: Devices) -> None:
        self._devices = devices

    async def suspend(self, job: SuspensionTarget) -> str:
        """Suspend the job off its devices; returns by which means. Raises `CannotSuspend`."""
        if not job.shares or self._devices.suspension == BY_FREEZING:  # simulated devices have nothing to be moved
            await self._freeze(job)
            return BY_FREEZING
        if not self._can_checkpoint:
            raise CannotSuspend("this node cannot suspend")
        if len(job.shares) > 1 or job.shares[0].mig or job.shares[0].units != GPU_UNITS:
            raise CannotSuspend("only a job with one whole GPU can be suspended")
        await self._off(job)
        return BY_CHECKPOINT

    async def resume(self, job: SuspensionTarget) -> None:
        """Resume the job on its devices. Raises `CannotResume`."""
        if not job.shares or not self._can_checkpoint:
            job.running.resume()
            return
        if not await self._free(job):
            raise CannotResume(f"its GPU is not free: {await asyncio.to_thread(self._devices.holder, job.shares)}")
        job.running.resume()
        try:
            await self._back(job)
        except CannotSuspend as error:
            raise CannotResume(f"its memory could not be put back onto the GPU: {error}") from None
        if job.group is not None and job.memory:
            with contextlib.suppress(OSError):
                job.group.hold_memory(job.memory)

    @property
    def _can_checkpoint(self) -> bool:
        return self._devices.labels.get("gpu.checkpoint") == "yes"

    async def _off(self, job: SuspensionTarget) -> None:
        moved = await asyncio.to_thread(self._used, job)
        spare = await asyncio.to_thread(_available)
        if moved * SPARE > spare:
            raise CannotSuspend(f"the node has {spare} MiB of memory free; {moved} MiB have to be moved there")
        if job.group is not None and job.memory:
            with contextlib.suppress(OSError):
                job.group.hold_memory(job.memory + moved)
        milliseconds = str(int(LOCK_WITHIN * 1000))
        try:
            await self._call(
                LOCK_WITHIN + CALL_WITHIN + PER_GIB * moved / 1024, "suspend", milliseconds, *await self._pids(job)
            )
            await self._freeze(job)
            await self._require_free(job)
        except CannotSuspend:
            job.running.resume()
            with contextlib.suppress(CannotSuspend):
                await self._back(job)
            raise

    async def _freeze(self, job: SuspensionTarget) -> None:
        """Freeze the job, and wait until it is frozen. Raises `CannotSuspend`, and the job runs on."""
        job.running.suspend()
        until = time.monotonic() + STILL_WITHIN
        while not await asyncio.to_thread(_is_still, job):
            if time.monotonic() > until:
                job.running.resume()
                raise CannotSuspend("it does not stand still: one of its processes waits for the kernel")
            await asyncio.sleep(STILL_EVERY)

    async def _require_free(self, job: SuspensionTarget) -> None:
        """Raise `CannotSuspend` if its devices do not become free."""
        if not await self._free(job):
            holder = await asyncio.to_thread(self._devices.holder, job.shares)
            raise CannotSuspend(f"its GPU did not become free: {holder}")

    async def _back(self, job: SuspensionTarget) -> None:
        gib = job.memory / 1024
        await self._call(CALL_WITHIN + PER_GIB * gib, "resume", *await self._pids(job))

    async def _free(self, job: SuspensionTarget) -> bool:
        """Return whether its devices are free, now or soon."""
        until = time.monotonic() + FREE_WITHIN
        while await asyncio.to_thread(self._devices.holder, job.shares):
            if time.monotonic() > until:
                return False
            await asyncio.sleep(LOOK_EVERY)
        return True

    def _used(self, job: SuspensionTarget) -> int:
        """Return the MiB on its device."""
        found = self._devices.on_devices()
        return sum(one.memory for share in job.shares for one in found.get(share.device, ()))

    async def _pids(self, job: SuspensionTarget) -> list[str]:
        """Return all processes of the job."""
        return [str(pid) for pid in await asyncio.to_thread(orphans.started_from, job.control)]

    async def _call(self, within: float, action: str, *arguments: str) -> None:
        """Run `cuda_call` and return its line. Raises `CannotSuspend`."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", cuda_call.__file__, action, *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(within):
                output, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise CannotSuspend(f"the driver did not {action} it within {within:.0f} s") from None
        word, _, reason = output.decode(errors="replace").strip().partition(" ")
        if word == "failed" or not word:
            raise CannotSuspend(reason or "the call to the driver crashed")


def _is_still(job: SuspensionTarget) -> bool:
    """Return whether all of it is stopped: a signal takes a moment."""
    if job.group is not None:
        return job.group.is_still
    return all(orphans.stands_still(pid) for pid in orphans.started_from(job.control))


def _available() -> int:
    """Return the available host memory in MiB."""
    with open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) // 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (1024 * 1024)
