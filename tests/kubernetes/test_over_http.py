"""The bridge over real HTTP: against the API server of this folder, or, with KUBECONFIG set (`make test-k8s`), against that cluster's.

A real cluster needs nothing but a node that is ready: the tests let it advertise GPUs that do not exist, and take that back.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.kubernetes.acting import ApiAway, ApiRefused
from headrace.kubernetes.api import Access, KubernetesApi, from_kubeconfig
from headrace.kubernetes.objects import CONDITION, FINALIZER, GATE, GROUP, GROUP_SIZE, JOB, LEASE, QUEUE, RANK
from headrace.kubernetes.service import Bridge, wall_clock
from tests.kubernetes.access import HallAccess
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.fake_api import TOKEN, FakeApi
from tests.kubernetes.hall import Hall
from tests.patience import PATIENCE

KUBECONFIG = os.environ.get("KUBECONFIG", "")
IMAGE = os.environ.get("HEADRACE_K8S_IMAGE", "busybox:1.36")
RESOURCE = "headrace.test/gpu" if KUBECONFIG else "nvidia.com/gpu"
WITHIN = 180 if KUBECONFIG else PATIENCE

DOCUMENTS = """
nodes: [{name: seed, labels: {site: other}, gpus: 1}]
pools: [{name: a, selector: {site: a}}, {name: other, selector: {site: other}}]
profiles: [{name: one, request: {gpu: 2}, pools: [a]}, {name: gang, request: {gpu: 1}, replicas: 2, pools: [a]}]
policies:
  - {name: own, profiles: [one], reservation: {gpu: 2}, preemption: {callback_grace: 1s, term_grace: 1s, min_runtime: 0s}}
  - {name: low, profiles: [one, gang], preemption: {callback_grace: 1s, term_grace: 1s, min_runtime: 0s}}
"""


class World:
    """A cluster with one node of two GPUs, an installation, and the bridge between them."""

    def __init__(self, api: KubernetesApi, fake: FakeApi | None, node: str) -> None:
        self.api, self.fake, self.node = api, fake, node
        self.namespace = f"headrace-{secrets.token_hex(4)}"
        self.account = f"default.{self.namespace}"
        self.hall = Hall(DOCUMENTS, start=wall_clock())
        self.access = HallAccess(self.hall, {self.namespace: self.account})
        self._running: list[asyncio.Task[None]] = []
        self.bridges: list[Bridge] = []

    def start(self) -> Bridge:
        """A bridge that knows nothing yet."""
        news = asyncio.Event()
        bridge = Bridge(self.api, self.access, "test", RESOURCE, news)  # type: ignore[arg-type]
        self.bridges.append(bridge)
        self._running.append(asyncio.ensure_future(bridge.run()))
        return bridge

    async def kill(self) -> None:
        """End every bridge, wherever it is."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._running.clear()

    async def create(self, name: str, queue: str, gpus: int, script: str, **labels: str) -> None:
        """A pod with its gate, as the webhook leaves it or a careful user writes it."""
        resources = {"requests": {RESOURCE: str(gpus)}, "limits": {RESOURCE: str(gpus)}}
        container = {"name": "main", "image": IMAGE, "command": ["sh", "-c", script], "resources": resources}
        spec = {"restartPolicy": "Never", "schedulingGates": [{"name": GATE}], "containers": [container]}
        named = {{"group": GROUP, "size": GROUP_SIZE}[key]: text for key, text in labels.items()}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {QUEUE: queue} | named}, "spec": spec}
        await self.api.call("POST", f"/api/v1/namespaces/{self.namespace}/pods", body)

    async def pod(self, name: str) -> dict[str, Any]:
        return await self.api.call("GET", f"/api/v1/namespaces/{self.namespace}/pods/{name}")

    async def until(self, name: str, holds: Any) -> dict[str, Any]:
        """The pod, once `holds` of it."""
        pod: dict[str, Any] = {}
        try:
            async with asyncio.timeout(WITHIN):
                while True:
                    with suppress(ApiAway):
                        pod = await self.pod(name)
                        if holds(pod):
                            return pod
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"it did not come to be: {pod}") from None

    def job(self, name: str) -> Any:
        return next(job for job in self.hall.state.jobs.values() if job.name == name)

    async def job_until(self, name: str, state: str) -> Any:
        async with asyncio.timeout(WITHIN):
            while not any(job.name == name and job.state.value == state for job in self.hall.state.jobs.values()):
                await asyncio.sleep(0.02)
        return self.job(name)


async def play(cluster: Cluster) -> None:
    """Scheduler and kubelets of the model: pods that say `exit N` end so, others run."""
    while True:
        cluster.now = wall_clock() // 1_000_000
        for pod in cluster.pods():
            cluster.schedule(pod)
            cluster.start(pod)
            script = pod["spec"]["containers"][0]["command"][2]
            if pod["status"]["phase"] == "Running" and script.startswith("exit"):
                cluster.finish(pod, int(script.split()[1]))
            cluster.terminate(pod)
        await asyncio.sleep(0.005)


@asynccontextmanager
async def modelled():
    cluster = Cluster(wall_clock() // 1_000_000)
    cluster.node("n1", 2, site="a")
    async with FakeApi(cluster) as fake, KubernetesApi(Access(fake.url, token=TOKEN)) as api:
        playing = asyncio.ensure_future(play(cluster))
        try:
            yield World(api, fake, "n1")
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)


@asynccontextmanager
async def real():
    """Two GPUs that do not exist on the first node of a cluster that is ready, and a namespace; both are taken back."""
    merge = "application/merge-patch+json"
    async with KubernetesApi(from_kubeconfig(Path(KUBECONFIG))) as api:
        nodes = (await api.list("/api/v1/nodes")).items
        able = [one["metadata"]["name"] for one in nodes if not one["spec"].get("taints")]
        node = f"/api/v1/nodes/{able[0]}"
        world = World(api, None, able[0])
        await api.call("PATCH", f"{node}/status", {"status": {"capacity": {RESOURCE: "2"}}}, merge)
        await api.call("PATCH", node, {"metadata": {"labels": {"headrace.dev/site": "a"}}}, merge)
        await api.call("POST", "/api/v1/namespaces", {"metadata": {"name": world.namespace}})
        try:
            yield world
        finally:
            await api.call("DELETE", f"/api/v1/namespaces/{world.namespace}")
            await api.call("PATCH", node, {"metadata": {"labels": {"headrace.dev/site": None}}}, merge)
            await api.call("PATCH", f"{node}/status", {"status": {"capacity": {RESOURCE: None}}}, merge)


@pytest.fixture
async def world(monkeypatch):
    if not KUBECONFIG:
        monkeypatch.setattr("headrace.kubernetes.service.LOOK_EVERY", 0.2)
    async with real() if KUBECONFIG else modelled() as found:
        try:
            yield found
        finally:
            await found.kill()


only_modelled = pytest.mark.skipif(bool(KUBECONFIG), reason="a cluster's API server does not fail when told to")


def running(pod):
    return pod["status"]["phase"] == "Running"


def over(pod):
    return pod["status"]["phase"] in ("Succeeded", "Failed") and FINALIZER not in pod["metadata"].get("finalizers", ())


def condition(pod):
    found = [one for one in pod["status"].get("conditions", ()) if one["type"] == CONDITION]
    return (found[0]["status"], found[0]["reason"]) if found else None


async def test_a_pod_becomes_a_job_runs_where_it_was_granted_and_its_end_is_in_the_ledger(world):
    world.start()
    await world.create("hello", "low.one", 1, "exit 0")
    pod = await world.until("hello", over)
    job = await world.job_until("hello", "succeeded")
    assert pod["spec"]["nodeName"] == world.node
    assert pod["spec"].get("schedulingGates", []) == []
    assert pod["metadata"]["labels"][JOB] in job.key
    assert (job.key.rpartition(".")[0], job.queue, job.request.amounts["gpu"]) == (world.account, "low/one", 126_000)
    assert job.attempts[-1].nodes == (world.node.replace(".", "-"),)


async def test_a_pod_that_waits_says_why_as_a_condition(world):
    world.start()
    await world.create("first", "own.one", 2, "sleep 1000")
    await world.until("first", running)
    await world.create("second", "low.one", 1, "exit 0")
    pod = await world.until("second", lambda pod: condition(pod) == ("False", "NO_FREE_CAPACITY"))
    assert pod["spec"]["schedulingGates"] == [{"name": GATE}]


async def test_a_queue_that_is_unknown_is_said_on_the_pod(world):
    world.start()
    await world.create("lost", "no.such", 1, "exit 0")
    await world.until("lost", lambda pod: condition(pod) == ("False", "UNKNOWN_QUEUE"))


async def test_the_gates_of_a_group_come_off_together_and_only_when_it_is_whole(world):
    world.start()
    await world.create("a", "low.gang", 1, "sleep 1000", group="g", size="2")
    await world.until("a", lambda pod: condition(pod) == ("False", "PENDING"))
    await world.create("b", "low.gang", 1, "sleep 1000", group="g", size="2")
    pods = [await world.until(name, running) for name in ("a", "b")]
    labels = [pod["metadata"]["labels"] for pod in pods]
    assert labels[0][JOB] == labels[1][JOB]
    assert labels[0][LEASE] == labels[1][LEASE]
    assert sorted(one[RANK] for one in labels) == ["0", "1"]


async def test_a_preempted_pod_is_evicted_and_the_one_with_the_reservation_runs(world):
    world.start()
    await world.create("borrower", "low.one", 2, "sleep 1000")
    await world.until("borrower", running)
    await world.create("owner", "own.one", 2, "sleep 1000")
    await world.until("owner", running)
    assert world.job("borrower").preemptions == 1


async def test_a_bridge_that_is_killed_and_started_again_goes_on_from_ledger_and_list(world):
    world.start()
    await world.create("long", "low.one", 1, "sleep 1000")
    await world.until("long", running)
    await world.kill()
    await world.create("short", "low.one", 1, "exit 3")
    world.start()
    await world.until("short", over)
    job = await world.job_until("short", "failed")
    assert job.exit_code == 3
    assert world.job("long").attempt == 1
    assert running(await world.pod("long"))


async def test_two_bridges_do_what_one_does(world):
    world.start()
    world.start()
    for number in range(4):
        await world.create(f"p{number}", "low.one", 1, "exit 0")
    for number in range(4):
        await world.until(f"p{number}", over)
        await world.job_until(f"p{number}", "succeeded")
    assert sorted(job.name for job in world.hall.state.jobs.values()) == ["p0", "p1", "p2", "p3"]


@only_modelled
async def test_watches_that_end_in_the_middle_and_grow_too_old_lose_nothing(world):
    bridge = world.start()
    await world.create("first", "low.one", 1, "sleep 1000")
    await world.until("first", running)
    lists = bridge.pods.lists
    for number in range(3):
        world.fake.drop_watches()
        world.fake.cluster.forget()
        await world.create(f"p{number}", "low.one", 1, "exit 0")
        world.fake.cluster.forget()
        await world.until(f"p{number}", over)
    assert bridge.pods.lists > lists


@only_modelled
async def test_lost_answers_lead_to_the_same_end(world):
    world.start()
    for number in range(3):
        await world.create(f"p{number}", "low.one", 1, "exit 0")
        world.fake.lost = 7
        await world.until(f"p{number}", over)
        await world.job_until(f"p{number}", "succeeded")


@only_modelled
@pytest.mark.parametrize("forbids", ["budgets", "doubled"])
async def test_an_eviction_that_disruption_budgets_forbid_becomes_a_deletion_with_the_same_grace(world, forbids):
    world.start()
    await world.create("borrower", "low.one", 2, "sleep 1000")
    await world.until("borrower", running)
    getattr(world.fake.cluster, forbids).add(world.namespace)
    await world.create("owner", "own.one", 2, "sleep 1000")
    await world.until("owner", running)
    asked = [verb for verb, path in world.fake.calls if "/borrower" in path and verb in ("POST", "DELETE")]
    assert asked[0] == "POST"
    assert "DELETE" in asked


@only_modelled
async def test_a_pod_whose_gate_a_user_took_off_is_deleted(world):
    world.start()
    await world.create("first", "own.one", 2, "sleep 1000")
    await world.until("first", running)
    await world.create("thief", "low.one", 1, "sleep 1000")
    await world.until("thief", lambda pod: condition(pod) is not None)
    world.fake.cluster.patch("pods", world.namespace, "thief", {"spec": {"schedulingGates": []}})
    with pytest.raises(ApiRefused, match="not found"):
        await world.until("thief", lambda pod: False)


@only_modelled
async def test_a_wrong_token_is_a_refusal_that_the_bridge_reports(world):
    async with KubernetesApi(Access(world.fake.url, token="another")) as api:
        with pytest.raises(ApiRefused) as refused:
            await api.list("/api/v1/pods")
    assert refused.value.status == 401


@only_modelled
async def test_a_collection_of_several_pages_is_listed_whole(world, monkeypatch):
    monkeypatch.setattr("headrace.kubernetes.api.PAGE", 2)
    for number in range(5):
        await world.create(f"p{number}", "low.one", 1, "exit 0")
    found = await world.api.list("/api/v1/pods")
    assert [raw["metadata"]["name"] for raw in found.items] == ["p0", "p1", "p2", "p3", "p4"]
