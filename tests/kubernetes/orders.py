"""Random orders of events: users, controllers, scheduler, kubelets, nodes, faults, two bridges, and time. Then everything comes to rest.

What has to hold at rest: no pod runs without a lease, and no lease is held without its pod.
"""

from __future__ import annotations

from random import Random
from typing import Any

from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import job_key
from headrace.kubernetes.identity import UNIT, unit_of
from headrace.kubernetes.matching import BELIEVED
from headrace.kubernetes.objects import FINALIZER, GROUP, GROUP_SIZE, JOB, LEASE, QUEUE, RANK, Pod, read_pod
from tests.kubernetes.bridges import ACCOUNTS, Bridge, Faults
from tests.kubernetes.cluster import GPU, Cluster, Refusal
from tests.kubernetes.hall import Hall

DOCUMENTS = """
nodes: [{name: seed, labels: {site: other}, gpus: 1}]
pools: [{name: a, selector: {site: a}}, {name: other, selector: {site: other}}]
profiles:
  - {name: one, request: {gpu: 2, cpu: 8, memory: 16GiB}, pools: [a]}
  - {name: gang, request: {gpu: 2, cpu: 8}, replicas: 2, pools: [a]}
policies:
  - {name: own, profiles: [one, gang], reservation: {gpu: 5}, preemption: {callback_grace: 5s, term_grace: 5s, on_node_lost: wait}}
  - {name: low, profiles: [one, gang], preemption: {callback_grace: 5s, term_grace: 5s, min_runtime: 0s}}
"""

NODES = {"n1": 2, "n2": 3, "n3": 1}
STEPS = 250
ROUNDS_MAX, REST = 250, 5
"""Rounds until all has to be at rest, and the seconds of each."""
SHUT = ("Succeeded", "Failed")


def body(namespace: str, name: str, queue: str, gpus: int, **labels: str) -> dict[str, Any]:
    """A pod as a user writes it."""
    requests = {"requests": {GPU: str(gpus), "cpu": "500m"}, "limits": {GPU: str(gpus)}}
    named = {key.replace("_", "-"): text for key, text in labels.items()}
    return {
        "metadata": {"namespace": namespace, "name": name, "labels": {QUEUE: queue} | named},
        "spec": {"containers": [{"name": "main", "image": "busybox", "resources": requests}]},
    }


class Controller:
    """A Job: keeps `count` pods until they have succeeded, and makes a new one for each that failed or is gone."""

    def __init__(self, number: int, template: dict[str, Any], count: int) -> None:
        self.uid, self.template, self.left, self.count, self.made, self.gone = f"job-{number}", template, 6, count, 0, False
        self.number = number

    def act(self, cluster: Cluster) -> None:
        mine = [pod for pod in cluster.pods() if any(o["uid"] == self.uid for o in pod["metadata"].get("ownerReferences", ()))]
        alive = [pod for pod in mine if pod["status"]["phase"] not in SHUT and "deletionTimestamp" not in pod["metadata"]]
        done = sum(pod["status"]["phase"] == "Succeeded" for pod in mine)
        if len(alive) + done >= self.count or self.left <= 0 or self.gone:
            return
        self.left, self.made = self.left - 1, self.made + 1
        raw = {**self.template, "metadata": dict(self.template["metadata"])}
        raw["metadata"] |= {
            "name": f"job-{self.number}-{self.made}",
            "ownerReferences": [{"uid": self.uid, "controller": True}],
        }
        cluster.create("pods", raw)


class Play:
    """One order, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.cluster = Cluster()
        self.hall = Hall(DOCUMENTS)
        for name, gpus in NODES.items():
            self.cluster.node(name, gpus, site="a")
        self.faults = Faults(self.random, self.random.choice([0, 5, 20]))
        self.bridges = [Bridge(self.cluster, self.hall, self.faults) for _ in range(self.random.choice([1, 1, 2]))]
        self.controllers: list[Controller] = []
        self.made = 0
        self.hostile = self.random.random() < 0.4
        self.granted = 0
        self.refused = 0

    def run(self) -> None:
        """Play the order, come to rest, and check."""
        actions = [
            *[self.bridge] * 10, *[self.kubelet] * 6, *[self.schedule] * 4, *[self.create] * 2,
            *[self.finish] * 3, self.delete,
            *[self.control] * 3, *[self.time] * 4, self.node, self.restart, self.forget,
            self.away, self.away, self.user_cancels, self.foreign,
            *([self.tamper] * 2 if self.hostile else []),
        ]  # fmt: skip
        for _ in range(STEPS):
            self.random.choice(actions)()
        self.come_to_rest()
        self.check()

    # what happens

    def bridge(self) -> None:
        bridge = self.random.choice(self.bridges)
        bridge.watch(self.random.choice([None, None, 3, 1, 0]))
        bridge.ask(fresh=self.random.random() < 0.8)
        bridge.round(shuffled=True, most=self.random.choice([None, None, None, 1, 3]))

    def create(self) -> None:
        namespace, queue = (
            self.random.choice(["red", "blue", "red", "blue", "grey"]),
            self.random.choice(["own.one", "low.one", "low.one"]),
        )
        self.made += 1
        name = f"p{self.made}"
        gpus = self.random.choice([1, 1, 1, 1, 2, 2, 2, 0, 3])
        kind = self.random.choice(["pod", "pod", "gang", "job", "jobgang", "wrong", "ungated"])
        group = {GROUP: f"g{self.made}", GROUP_SIZE: "2"}
        if kind in ("pod", "ungated"):
            self.cluster.create("pods", body(namespace, name, queue, gpus), gated=kind == "pod")
        elif kind == "wrong":
            self.cluster.create("pods", body(namespace, name, self.random.choice(["no", "own.none", "own.gang"]), gpus))
        elif kind == "gang":
            for number in range(self.random.choice([2, 2, 2, 1, 3])):
                self.cluster.create("pods", body(namespace, f"{name}-{number}", "low.gang", 1, **group))
        else:
            labels, queue = (group, "low.gang") if kind == "jobgang" else ({}, queue)
            self.controllers.append(Controller(self.made, body(namespace, name, queue, 1, **labels), 2))

    def foreign(self) -> None:
        self.made += 1
        raw = body("grey", f"f{self.made}", "x.y", 1)
        raw["metadata"]["labels"] = {}
        self.cluster.create("pods", raw)

    def control(self) -> None:
        for controller in self.controllers:
            controller.act(self.cluster)

    def _pod(self) -> dict[str, Any] | None:
        pods = self.cluster.pods()
        return self.random.choice(pods) if pods else None

    def schedule(self) -> None:
        if (pod := self._pod()) is not None:
            self.cluster.schedule(pod)

    def kubelet(self) -> None:
        if (pod := self._pod()) is not None:
            self.cluster.start(pod) or self.cluster.terminate(pod)

    def finish(self) -> None:
        for pod in [one for one in self.cluster.pods() if one["status"]["phase"] == "Running"][:1]:
            self.cluster.finish(pod, self.random.choice([0, 0, 1]))

    def delete(self) -> None:
        if (pod := self._pod()) is not None:
            self.cluster.delete(pod["metadata"]["namespace"], pod["metadata"]["name"], {"gracePeriodSeconds": 5})

    def time(self) -> None:
        self._pass(self.random.choice([1, 1, 2, 5, 5, 20, 20, 65, 200]))

    def _pass(self, seconds: int) -> None:
        self.cluster.now += seconds
        self.hall.pass_to(self.hall.now + seconds * 1_000_000)

    def node(self) -> None:
        name = self.random.choice(list(NODES))
        self.cluster.set_ready(name, name in self.cluster.down)

    def restart(self) -> None:
        self.random.choice(self.bridges).restart()

    def forget(self) -> None:
        """The API server forgets its changes, so watches that lag are too old."""
        self.cluster.forget(1)

    def away(self) -> None:
        self.faults.ledger_away = self.random.random() < 0.3
        for budgets, namespace in ((self.cluster.budgets, "red"), (self.cluster.doubled, "blue")):
            (budgets.discard if namespace in budgets else budgets.add)(namespace)

    def user_cancels(self) -> None:
        keys = sorted(key for key, job in self.hall.state.jobs.items() if job.state.value in ("pending", "running", "starting"))
        if keys:
            self.hall.cancel(self.random.choice(keys), "the user wants it")

    def tamper(self) -> None:
        """What a user does to pods while the webhook is away."""
        pod = self._pod()
        if pod is None or QUEUE not in pod["metadata"].get("labels", {}):
            return
        other = self._pod() or pod
        theirs = other["metadata"].get("labels", {})
        patch = self.random.choice(
            [
                {"spec": {"schedulingGates": []}},
                {"metadata": {"labels": {LEASE: None}}},
                {"metadata": {"labels": {LEASE: self.random.choice(["x", "1.1", "1.99999", theirs.get(LEASE, "2.9")])}}},
                {"metadata": {"labels": {JOB: theirs.get(JOB), RANK: theirs.get(RANK)}}},
                {"metadata": {"labels": {JOB: "no-ulid"}}},
                {"metadata": {"finalizers": []}},
            ]
        )
        meta = pod["metadata"]
        try:
            self.cluster.patch("pods", meta["namespace"], meta["name"], patch)
        except Refusal:
            self.refused += 1

    # rest

    def come_to_rest(self) -> None:
        self.faults.often, self.faults.ledger_away = 0, False
        self.cluster.budgets.clear()
        for name in sorted(self.cluster.down):
            self.cluster.set_ready(name, True)
        quiet = 0
        for _ in range(ROUNDS_MAX):
            before = self.cluster.version, self.hall.state.sequence
            self.control()
            for pod in self.cluster.pods():
                self.cluster.schedule(pod)
                self.cluster.start(pod)
                self.cluster.terminate(pod)
            for bridge in self.bridges:
                bridge.watch()
                bridge.ask()
                bridge.round()
            self._pass(REST)
            quiet = quiet + 1 if (self.cluster.version, self.hall.state.sequence) == before else 0
            if quiet * REST * SECOND > BELIEVED:
                return
        raise AssertionError("no rest")

    def check(self) -> None:
        """No pod without a lease, no lease without a pod, and nothing left behind."""
        running = self.running()
        leases = {
            (lease.job.key, lease.attempt, lease.rank): node.name
            for node in self.hall.state.nodes.values()
            for lease in node.leases.values()
        }
        assert {key: pod.target for key, pod in running.items()} == leases
        stopping = [
            lease.job.key for node in self.hall.state.nodes.values() for lease in node.leases.values() if lease.job.stop
        ]
        assert stopping == []
        self.granted = len(leases)
        for raw in self.cluster.pods():
            assert raw["status"]["phase"] not in SHUT or FINALIZER not in raw["metadata"].get("finalizers", ())
        for key, job in self.hall.state.jobs.items():
            if job.state.value == "pending":
                mine = [pod for pod in self.pods() if self.key(pod) == key and not pod.is_over and not pod.deleting]
                made_for = [
                    pod.rank for pod in mine if unit_of(pod).digest == job.labels[UNIT]
                ]  # others were given its label by a user
                assert sorted(made_for) == list(range(job.request.replicas)), key

    def pods(self) -> list[Pod]:
        return [read_pod(raw, GPU) for raw in self.cluster.pods() if QUEUE in raw["metadata"].get("labels", {})]

    def key(self, pod: Pod) -> str:
        return job_key(*ACCOUNTS[pod.namespace].split("."), pod.job) if pod.job and pod.namespace in ACCOUNTS else ""

    def running(self) -> dict[tuple[str, int, int], Pod]:
        """Pods that may run, by their lease; each has one, and no two the same."""
        found: dict[tuple[str, int, int], Pod] = {}
        for pod in self.pods():
            if pod.namespace not in ACCOUNTS or pod.gated or pod.is_over:
                continue
            assert pod.held is not None, pod.where
            key = self.key(pod), pod.held.attempt, pod.rank
            assert key not in found
            found[key] = pod
        return found
