"""A bridge that is away for longer than a node may be silent: what becomes of pods and jobs when it is back (docs/kubernetes.md)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.kubernetes.bridges import Bridge, Faults
from tests.kubernetes.cluster import Cluster
from tests.kubernetes.hall import Hall
from tests.kubernetes.orders import Controller, body

DOCUMENTS = """
nodes: [{name: seed, labels: {site: other}, gpus: 1}]
pools: [{name: a, selector: {site: a}}, {name: other, selector: {site: other}}]
profiles: [{name: one, request: {gpu: 2, cpu: 8, memory: 16GiB}, pools: [a]}]
policies:
  - {name: keen, profiles: [one], preemption: {callback_grace: 5s, term_grace: 5s}}
  - {name: calm, profiles: [one], preemption: {on_node_lost: wait}}
"""
AWAY = 300


class Site:
    """A cluster with one node, an installation, and one bridge; time passes by five seconds."""

    def __init__(self) -> None:
        self.cluster, self.hall = Cluster(), Hall(DOCUMENTS)
        self.cluster.node("n1", 2, site="a")
        self.controllers: list[Controller] = []
        self.bridge = Bridge(self.cluster, self.hall, Faults(Random(1)))

    def pass_time(self, seconds: int, *, is_away: bool = False, api_away: bool = False) -> None:
        for _ in range(0, seconds, 5):
            for controller in self.controllers:
                controller.act(self.cluster)
            for pod in self.cluster.pods():
                self.cluster.schedule(pod)
                self.cluster.start(pod)
                self.cluster.terminate(pod)
            if api_away:
                self.bridge.faults.often = 100
                self.bridge.ask()
                self.bridge.round()
                self.bridge.faults.often = 0
            elif not is_away:
                self.bridge.watch()
                self.bridge.ask()
                self.bridge.round()
            self.cluster.now += 5
            self.hall.pass_to(self.hall.now + 5_000_000)

    @property
    def node(self) -> str:
        return self.hall.state.nodes["n1"].status

    def jobs(self) -> list[tuple[str, int]]:
        return [(job.state.value, job.attempt) for job in self.hall.state.jobs.values()]

    def pods(self) -> list[tuple[Any, ...]]:
        return [(raw["metadata"]["name"], raw["status"]["phase"]) for raw in self.cluster.pods()]


@pytest.fixture
def site() -> Site:
    return Site()


def test_pods_of_a_policy_that_waits_for_lost_nodes_go_on_when_the_bridge_is_back(site: Site) -> None:
    site.cluster.create("pods", body("red", "p", "calm.one", 1))
    site.pass_time(30)
    site.pass_time(AWAY, is_away=True)
    assert site.node == "lost"
    site.bridge.restart()
    site.pass_time(120)
    assert (site.node, site.jobs(), site.pods()) == ("ready", [("running", 1)], [("p", "Running")])


def test_a_job_that_lost_its_node_keeps_its_place_for_the_next_pod_of_its_controller(site: Site) -> None:
    site.controllers.append(Controller(1, body("red", "p", "keen.one", 1), 1))
    site.pass_time(30)
    site.pass_time(AWAY, is_away=True)
    assert (site.node, site.jobs()) == ("lost", [("pending", 1)])
    site.bridge.restart()
    site.pass_time(120)
    assert (site.node, site.jobs(), site.pods()) == ("ready", [("running", 2)], [("job-1-2", "Running")])


def test_a_job_that_gets_no_new_pod_is_cancelled_a_minute_after_the_bridge_has_come_back(site: Site) -> None:
    site.cluster.create("pods", body("red", "p", "keen.one", 1))
    site.pass_time(30)
    site.pass_time(AWAY, is_away=True)
    site.bridge.restart()
    site.pass_time(50)
    assert (site.jobs(), site.pods()) == ([("starting", 2)], [])
    site.pass_time(60)
    assert site.jobs() == [("cancelled", 2)]


def test_while_the_api_server_is_away_the_bridge_keeps_its_nodes_and_their_pods(site: Site) -> None:
    site.cluster.create("pods", body("red", "p", "keen.one", 1))
    site.pass_time(30)
    site.pass_time(AWAY, api_away=True)
    assert (site.node, site.jobs()) == ("ready", [("running", 1)])
    site.pass_time(30)
    assert (site.node, site.jobs(), site.pods()) == ("ready", [("running", 1)], [("p", "Running")])
