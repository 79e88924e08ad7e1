"""What jobs in containers get of GPUs: whole ones, parts, slices; what they may not take; how they are suspended."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace.contracts.facts import LeaseEndedV1, LeaseOverranV1, LeaseResumedV1, LeaseSuspendedV1, NodeRegisteredV1
from headrace.contracts.facts.fact import DeviceShare, Ladder
from headrace.contracts.messages.orders import Samples
from headrace.contracts.transport.codec import decode
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices.nvml_library import Nvml
from headrace.node_executor.runtimes.container_engine import Engine
from headrace.node_executor.system.cgroups import group_of_process
from tests.integration.nodes import Feed, until, until_printed
from tests.mock_nvml import Machine
from tests.real_engine import IMAGE, Podman

FIRST, SECOND = "GPU-a1b2c300", "GPU-a1b2c301"
HALF = DeviceShare(device=SECOND, units=GPU_UNITS // 2)
SUSPEND = Ladder(cause="preempted", callback_grace=0, term_grace=30_000_000, then="suspend")


@pytest.fixture
def devices(gpus: Machine) -> str:
    gpus.set("mig", 1)
    return "nvml"


async def begin(feed: Feed, number: int, share: DeviceShare, *command: str) -> str:
    return await feed.start(number, *command, devices=(share,), image=IMAGE)


async def test_a_node_says_what_containers_can_be_given(feed: Feed, site) -> None:
    (registered,) = [fact for fact in feed.facts if isinstance(fact, NodeRegisteredV1)]
    inside = {kind: level for kind, level in registered.levels.items() if kind.startswith("container")}
    assert inside == {"container-whole": "watchdog", "container-fraction": "watchdog", "container-slice": "watchdog"}


async def test_a_container_has_its_part_of_a_gpu_and_who_takes_more_is_killed_and_its_neighbour_is_not(
    feed: Feed, site
) -> None:
    uuid = f"{SECOND}-0000-4000-8000-000000000000"
    good = await begin(feed, 0, HALF, "take", "30000")
    await until_printed(feed, good, f"0 {uuid}\n")
    assert (await feed.started(good)).isolation == "watchdog"
    bad = await begin(feed, 1, HALF, "take", "45000")
    ended = await feed.ended(bad)
    (overran,) = feed.of(bad, LeaseOverranV1)
    assert (overran.device, overran.limit, overran.used) == (SECOND, 40_267, 45_500)
    assert (ended.exit_code, ended.message) == (137, f"it held 45500 MiB of {SECOND}, 40267 MiB are its own")
    assert feed.of(good, LeaseOverranV1) == feed.of(good, LeaseEndedV1) == []


async def test_a_container_that_hides_the_lease_in_its_environment_is_seen_all_the_same(feed: Feed, site) -> None:
    job = await begin(feed, 0, HALF, "sh", "-c", "(unset HEADRACE_CONTROL_DIR; exec take 45000) & wait")
    ended = await feed.ended(job)
    assert (ended.exit_code, ended.message) == (137, f"it held 45500 MiB of {SECOND}, 40267 MiB are its own")


async def test_a_slice_is_given_to_a_container_by_its_name_and_nothing_is_left_of_it(feed: Feed, site) -> None:
    share = DeviceShare(device=FIRST, units=63_000, mig="3g.40gb", start=4)
    job = await begin(feed, 0, share, "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; while [ ! -e go ]; do sleep 0.01; done; exit 3")
    assert (await feed.started(job)).isolation == "watchdog"
    nvml = Nvml()
    (made,) = nvml.instances(nvml.uuids[0])
    await until_printed(feed, job, f"{nvml.slice_name(nvml.uuids[0], made.id)}\n")
    (site.data / "leases" / f"{job}.1.0" / "work" / "go").touch()
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, nvml.instances(nvml.uuids[0])) == ("exited", 3, [])
    nvml.close()


async def test_what_a_container_uses_is_counted_as_its_leases(feed: Feed, site) -> None:
    received: list[Samples] = []

    async def receive(message: Any) -> None:
        received.append(decode(message.data, Samples))

    await feed.subscribe("hr.telemetry.gpu01.samples", receive)
    job = await begin(feed, 0, HALF, "sh", "-c", "while :; do :; done & sleep 1000 & exec take 1000")
    leases = lambda: [one for samples in received for one in samples.leases if one.devices == {SECOND: 1_500} and one.cpu]  # noqa: E731
    await until(leases)
    assert {(one.lease, one.processes) for one in leases()} == {(f"{job}/1/0", 4)}  # with the first process of the container


class TestWithSimulatedGpus:
    @pytest.fixture
    def devices(self) -> str:
        return "sim:2xH100-80GB"

    async def test_a_container_is_suspended_where_it_is_and_goes_on(self, feed: Feed, site, engine: Podman) -> None:
        counts = "while :; do n=$((n+1)); echo $n >> n; sleep 0.01; done"
        job = await begin(feed, 0, DeviceShare(device="gpu0", units=GPU_UNITS), "sh", "-c", counts)
        counter = site.data / "leases" / f"{job}.1.0" / "work" / "n"
        await until(counter.exists)
        await feed.stop(job, SUSPEND)
        await until(lambda: feed.of(job, LeaseSuspendedV1))
        found = Engine(engine.socket).call("GET", f"/containers/headrace-{job}.1.0/json")
        group = group_of_process(found["State"]["Pid"], found["Id"])
        assert group is not None
        assert "frozen 1" in await asyncio.to_thread(Path(group.directory, "cgroup.events").read_text)
        stood = counter.stat().st_size
        await feed.go_on(job)
        await until(lambda: counter.stat().st_size > stood)
        await until(lambda: len(feed.of(job, LeaseResumedV1)) == 1)

    async def test_a_suspended_container_is_killed_where_it_is(self, feed: Feed, site) -> None:
        job = await begin(feed, 0, DeviceShare(device="gpu0", units=GPU_UNITS), "sh", "-c", "sleep 1000")
        await feed.started(job)
        await feed.stop(job, SUSPEND)
        await until(lambda: feed.of(job, LeaseSuspendedV1))
        await feed.stop(job, Ladder(cause="cancelled", callback_grace=0, term_grace=100_000))
        assert (await feed.ended(job)).exit_code == 137
