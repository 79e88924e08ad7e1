"""Health, overruns and samples, against the mock's GPUs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.messages.orders import DeviceSample, Samples
from headrace.contracts.transport.codec import decode
from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.devices.health import QUIET, Trouble
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.devices.nvml_library import Nvml
from headrace.node_executor.devices.simulated import simulated
from headrace.node_executor.enforcement.watchdog import Overrun
from headrace.node_executor.files.workspace import Paths
from headrace.node_executor.launch.preparation import Prepared
from headrace.node_executor.leases.running_lease import RunningLease
from headrace.node_executor.monitoring.idleness import WINDOW
from headrace.node_executor.monitoring.monitors import DeviceMonitors, MonitorListeners
from headrace.node_executor.runtimes.job_log import Output
from tests.mock_nvml import Machine
from tests.patience import PATIENCE
from tests.unit.node_executor.conftest import order

FIRST, SECOND = "GPU-a1b2c300", "GPU-a1b2c301"


class Here:
    """A job that runs: this very process."""

    pid = os.getpid()


class Stage:
    """A watch with everything around it. `at` is its clock."""

    def __init__(self, devices) -> None:
        self.at = 1
        self.events: list[v.Event] = []
        self.published: list[Samples] = []
        self.held: list[RunningLease] = []
        self.used: dict[tuple[str, str], int] = {}
        self.watching = DeviceMonitors("gpu01", devices, lambda: self.at)
        self.audience = MonitorListeners(self.events.append, lambda: self.held, self.publish, lambda: self.used)
        self.watching.set_listeners(self.audience)

    async def publish(self, kind: str, payload: bytes) -> None:
        assert kind == "samples"
        self.published.append(decode(payload, Samples))

    async def look(self, at: int) -> Samples:
        self.at = at
        await self.watching.sample(self.audience)
        return self.published[-1]

    def hold(self, device: str) -> str:
        """A lease of all of a device, which runs."""
        one = order(devices=(DeviceShare(device=device, units=126_000),))
        held = RunningLease(one, Prepared(Paths("/c", "", "", ""), {}, "/"), Output("/dev/null", 1))
        held.running = Here()  # type: ignore[assignment]
        self.held.append(held)
        return one.lease


@pytest.fixture
async def stage(machine: Machine) -> AsyncIterator[Stage]:
    devices = NvmlDevices(Nvml(), lambda: 0)
    yield Stage(devices)
    devices.close()


async def test_what_devices_do_is_told_of_all(stage: Stage, machine: Machine) -> None:
    machine.set("gpu_util", 40)
    machine.process(os.getpid(), 300)
    found = await stage.look(5)
    assert found == Samples(
        node="gpu01",
        at=5,
        window=WINDOW,
        devices=(
            DeviceSample(device=FIRST, busy=40, memory_used=300, memory=81_559),
            DeviceSample(device=SECOND, busy=0, memory=81_559),
        ),
    )


async def test_what_a_lease_uses_is_told_with_it(stage: Stage, machine: Machine) -> None:
    lease = stage.hold(FIRST)
    stage.used = {(lease, FIRST): 300, ("other", FIRST): 7}
    machine.process(os.getpid(), 300, sm=65)
    await stage.look(1_000_000)
    (found,) = (await stage.look(2_000_000)).leases
    assert (found.lease, found.devices, found.busy, found.processes >= 1, found.memory > 10) == (
        lease,
        {FIRST: 300},
        65,
        True,
        True,
    )


async def test_a_device_that_is_held_and_idle_for_the_whole_window_is_found(stage: Stage) -> None:
    stage.hold(FIRST)
    await stage.look(10)
    found = (await stage.look(10 + WINDOW)).devices
    assert [(one.idle, one.held, one.average) for one in found] == [(True, WINDOW, 0), (False, 0, None)]


async def test_a_device_that_fails_and_returns_is_told_to_the_core_and_shown(stage: Stage, machine: Machine) -> None:
    machine.set("lost", 1, gpu=1)
    assert (await stage.look(5)).devices[1] == DeviceSample(device=SECOND, memory=81_559, unfit="the driver has lost it")
    machine.set("lost", 0, gpu=1)
    assert (await stage.look(5 + QUIET)).devices[1].unfit == ""
    assert stage.events == [
        v.DeviceChanged(5, SECOND, "lost", 0, "the driver has lost it"),
        v.DeviceChanged(5 + QUIET, SECOND, "", 0, "in order again"),
    ]


async def test_what_other_threads_see_comes_into_the_loop(stage: Stage) -> None:
    overrun, trouble = Overrun("a.b.c/1/0", FIRST, 1_000, 2_000), Trouble("xid", 79, "XID 79")
    await asyncio.to_thread(stage.watching.overran, overrun)
    await asyncio.to_thread(stage.watching.changed, FIRST, trouble)
    async with asyncio.timeout(PATIENCE):
        while len(stage.events) < 2:
            await asyncio.sleep(0)
    assert stage.events == [
        v.Overran(1, "a.b.c/1/0", f"it held 2000 MiB of {FIRST}, 1000 MiB are its own", FIRST, 1_000, 2_000),
        v.DeviceChanged(1, FIRST, "xid", 79, "XID 79"),
    ]


async def test_it_looks_again_and_again() -> None:
    stage = Stage(simulated("1xL4"))
    watching = asyncio.create_task(stage.watching.run(0.001))
    async with asyncio.timeout(PATIENCE):
        while len(stage.published) < 3:
            await asyncio.sleep(0.001)
    watching.cancel()
    assert stage.published[0].devices == (DeviceSample(device="gpu0", memory=81_920),)


async def test_before_a_listener_is_set_nothing_is_told(machine: Machine) -> None:
    watching = DeviceMonitors("gpu01", simulated("1xL4"), lambda: 0)
    watching.changed("gpu0", None)
    running = asyncio.create_task(watching.run(0.001))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert running.cancelled()


async def test_a_look_that_fails_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(simulated("1xL4"))
    looks = []

    async def sample(to: MonitorListeners) -> None:
        looks.append(to)
        raise RuntimeError("the driver is gone")

    monkeypatch.setattr(stage.watching, "sample", sample)
    watching = asyncio.create_task(stage.watching.run(0.001))
    async with asyncio.timeout(PATIENCE):
        while len(looks) < 3:
            await asyncio.sleep(0.001)
    assert not watching.done()
    watching.cancel()


async def test_a_device_is_in_order_again_when_neither_it_nor_its_slices_are_in_trouble(stage: Stage) -> None:
    stuck, lost = Trouble("stuck_slice", 4, "stuck"), Trouble("lost", 0, "lost")
    for report, trouble in (
        (stage.watching.slices_changed, stuck),
        (stage.watching.changed, lost),
        (stage.watching.changed, None),
        (stage.watching.slices_changed, None),
    ):
        report(FIRST, trouble)
    async with asyncio.timeout(PATIENCE):
        while len(stage.events) < 4:
            await asyncio.sleep(0)
    assert [event.message for event in stage.events] == ["stuck", "lost", "stuck", "in order again"]


async def test_processes_of_others_on_a_free_gpu_keep_jobs_from_it_until_they_are_gone(stage: Stage) -> None:
    stage.used = {("", FIRST): 500, ("", SECOND): 10}  # a program that only looks holds a little
    await stage.look(1)
    assert stage.events == []
    await stage.look(2)
    await stage.look(3)
    stage.used = {}
    await stage.look(4)
    message = "processes that are not of Headrace's jobs hold 500 MiB of it"
    assert stage.events == [
        v.DeviceChanged(2, FIRST, "foreign_process", 500, message),
        v.DeviceChanged(4, FIRST, "", 0, "in order again"),
    ]


async def test_processes_of_others_beside_a_lease_do_not_end_it(stage: Stage) -> None:
    stage.hold(FIRST)
    stage.used = {("", FIRST): 500}
    for at in (1, 2, 3):
        await stage.look(at)
    assert stage.events == []
