"""Checks whether jobs can be started on this node, when it is asked to after it was set aside (R36).

Strategy: frequent reasons of failed starts are tested once: the disk is written to, the devices are looked at, a control group is made,
and a trivial program is started by the runtime that starts jobs, and waited for. Nothing of it is left behind.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable

from headrace.node_executor.dependencies import ExecutorDependencies
from headrace.node_executor.runtimes import CannotStart, End, Launch, RuntimeListener
from headrace.node_executor.runtimes.job_log import Output
from headrace.node_executor.system.cgroups import LeaseGroup

WITHIN = 30.0
"""Seconds in which the program has to end."""
NAME = "self-check"
PROGRAM = ("true",)


class SelfCheck:
    """Checks its node; one check at a time. `report` receives the complaint in one line, empty if all is well."""

    def __init__(self, dependencies: ExecutorDependencies, report: Callable[[str], None]) -> None:
        self._with = dependencies
        self._report = report
        self._work: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Begin a check; `report` is called later."""
        if self._work is None or self._work.done():
            self._work = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        self._report(await check(self._with))


async def check(dependencies: ExecutorDependencies) -> str:
    """Return why jobs cannot be started here, in one line; "" if all is well."""
    directory = os.path.join(dependencies.workspace.data, NAME)
    devices = dependencies.devices.inventory()
    if devices and all(device.unfit for device in devices):
        return f"all of its devices are unfit: {devices[0].unfit}"
    group: LeaseGroup | None = None
    try:
        await asyncio.to_thread(_write, directory)
        group = dependencies.preparation.make_group(NAME)
        return await _start(dependencies, directory, group)
    except CannotStart as error:
        return error.message
    except TimeoutError:
        return f"a program that does nothing had not ended after {WITHIN:g} s"
    except OSError as error:
        return f"the data directory cannot be written to: {error.strerror}"
    finally:
        if group is not None:
            group.remove()
        shutil.rmtree(directory, ignore_errors=True)


def _write(directory: str) -> None:
    """Create the directory, and a file in it that is synced to the disk."""
    os.makedirs(directory, 0o700, exist_ok=True)
    descriptor = os.open(os.path.join(directory, "written"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, bytes(4096))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


async def _start(dependencies: ExecutorDependencies, directory: str, group: LeaseGroup | None) -> str:
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def failed(error: CannotStart) -> None:
        if not ended.done():
            ended.set_exception(error)

    def over(end: End) -> None:
        if not ended.done():
            ended.set_result("" if end.code == 0 else f"a program that does nothing ended with exit code {end.code}")

    output = Output(os.path.join(directory, "log"), dependencies.output_limit)
    launch = Launch(NAME, PROGRAM, {"PATH": os.defpath}, directory, directory, output, group=group)
    try:
        dependencies.runtime.start(launch, RuntimeListener(lambda _running, _at: None, failed, over))
        async with asyncio.timeout(WITHIN):
            return await ended
    finally:
        dependencies.runtime.forget(NAME)
