"""The bridge as a process: it looks, decides and acts whenever something has changed, and every few seconds."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import structlog

from headrace.health.config import read_config, serving
from headrace.health.health import Health
from headrace.kubernetes.acting import Acting
from headrace.kubernetes.api import Access, KubernetesApi, from_kubeconfig, in_pod
from headrace.kubernetes.decide import decide, living
from headrace.kubernetes.ledger_access import LedgerAccess, Place
from headrace.kubernetes.matching import Matching, doubted
from headrace.kubernetes.objects import DEFAULT_RESOURCE, QUEUE, Pod, foreign_gpus, read_node, read_pod
from headrace.kubernetes.view import View
from headrace.kubernetes.waiting import lacking
from headrace.kubernetes.watching import Collection
from headrace.kubernetes.webhook import Certificate, Webhook

LOOK_EVERY = 5.0
"""Seconds between rounds without news; also between heartbeats of nodes."""
TOGETHER = 0.05
"""Seconds for which further news are awaited before a round."""
PODS, NODES = "/api/v1/pods", "/api/v1/nodes"

_log = structlog.get_logger("headrace.kubernetes")


class BadSetting(Exception):
    """A setting is missing or malformed; the message says which."""


class Settings(NamedTuple):
    """How the bridge is set up, from the environment. `user`: as whom it calls the API server; `webhook`: host and port, or None."""

    cluster: str
    resource: str
    access: Access
    place: Place
    user: str
    webhook: tuple[str, int] | None
    certificate: Path | None


def settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings. Raises BadSetting, OSError, BadKubeconfig."""
    prefix = "HEADRACE_KUBERNETES_"

    def variable(name: str, default: str = "") -> str:
        value = environment.get(prefix + name, default)
        if not value:
            raise BadSetting(f"{prefix}{name} is not set")
        return value

    kubeconfig = environment.get("KUBECONFIG", "")
    if kubeconfig:
        access = from_kubeconfig(Path(kubeconfig))
    elif "KUBERNETES_SERVICE_HOST" in environment:
        access = in_pod(environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443"))
    else:
        raise BadSetting("neither KUBECONFIG nor KUBERNETES_SERVICE_HOST is set: where is the API server?")
    place = Place(
        environment.get("HEADRACE_NATS_URL", "nats://127.0.0.1:4222"),
        environment.get("HEADRACE_SERVER", "http://127.0.0.1:8080"),
        environment.get("HEADRACE_CA", ""),
        Path(variable("NODE_TOKENS")),
        Path(variable("ACCOUNT_TOKENS")),
    )
    listen = environment.get(prefix + "WEBHOOK", "")
    host, _, port = listen.rpartition(":")
    if listen and not (host and port.isascii() and port.isdecimal() and int(port) < 65_536):
        raise BadSetting(f"{prefix}WEBHOOK: invalid address {listen!r}; use HOST:PORT")
    certificate = Path(variable("CERTIFICATE")) if listen else None
    return Settings(
        variable("CLUSTER", "kubernetes"),
        variable("RESOURCE", DEFAULT_RESOURCE),
        access,
        place,
        variable("USER") if listen else "",
        (host, int(port)) if listen else None,
        certificate,
    )


def wall_clock() -> int:
    """The time of this machine, in microseconds since 1970."""
    return time.time_ns() // 1_000


class Bridge:
    """One bridge between an API server and an installation."""

    def __init__(self, api: KubernetesApi, ledger: LedgerAccess, cluster: str, resource: str, news: asyncio.Event) -> None:
        self.pods = Collection(api, PODS, news.set)
        self.nodes = Collection(api, NODES, news.set)
        self.acting = Acting(api, ledger, wall_clock, resource)
        self.rounds = 0
        self._lacking: dict[str, int] = {}
        self._doubted: dict[str, int] = {}
        self._ledger = ledger
        self._cluster = cluster
        self._resource = resource
        self._news = news

    async def run(self) -> None:
        """Look, decide and act until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.pods.run())
            tasks.create_task(self.nodes.run())
            tasks.create_task(self._keep_acting())

    async def _keep_acting(self) -> None:
        while True:
            if self.pods.listed and self.nodes.listed:
                await self.round()
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await self._news.wait()
                await asyncio.sleep(TOGETHER)
            except TimeoutError:
                pass
            self._news.clear()

    async def round(self) -> None:
        """One round: see, beat, decide, act."""
        view = await self.look()
        beats = {
            name: (len(view.answers[name].starts) + len(view.answers[name].stops), view.answers[name].last_record)
            for name in living(view)
        }
        await self._ledger.beat(beats)
        await self.acting.take_all(decide(view))
        self.rounds += 1

    async def look(self) -> View:
        """What is to be seen now: first the ledger is asked, then pods are looked at, so that they are at least as new."""
        nodes = tuple(node for raw in self.nodes.objects.values() if (node := read_node(raw, self._resource)) is not None)
        answers = await self._ledger.answers([node.name for node in nodes])
        accounts = await self._ledger.accounts()
        labelled: dict[str, set[str]] = {}
        for pod in self._ours()[0]:
            if pod.job and (pod.gated or pod.finalized or not pod.is_over):
                labelled.setdefault(pod.namespace, set()).add(pod.job)
        jobs, listed = await self._ledger.jobs(self._cluster, labelled)
        self._ledger.forget(jobs)
        pods, foreign = self._ours()
        registered, now = self.acting.registered, wall_clock()
        view = View(self._cluster, accounts, pods, nodes, answers, jobs, listed, registered, foreign, {}, {}, now)
        seen = Matching(view)
        self._lacking, self._doubted = lacking(seen, self._lacking), doubted(seen, self._doubted)
        return view._replace(lacking=self._lacking, doubted=self._doubted)

    def _ours(self) -> tuple[tuple[Pod, ...], dict[str, int]]:
        """Pods of queues, and the GPUs that others take, by node."""
        ours: list[Pod] = []
        foreign: dict[str, int] = {}
        for raw in self.pods.objects.values():
            if QUEUE in ((raw.get("metadata") or {}).get("labels") or {}):
                ours.append(read_pod(raw, self._resource))
            else:
                node, gpus = foreign_gpus(raw, self._resource)
                if node and gpus:
                    foreign[node] = foreign.get(node, 0) + gpus
        return tuple(ours), foreign


def watch(health: Health, bridge: Bridge, ledger: LedgerAccess) -> None:
    """Register checks and metrics."""
    health.check("pods", lambda: bridge.pods.trouble if bridge.pods.listed else bridge.pods.trouble or "not listed yet")
    health.check("nodes", lambda: bridge.nodes.trouble if bridge.nodes.listed else bridge.nodes.trouble or "not listed yet")
    health.check("headrace", lambda: "; ".join(f"{what}: {why}" for what, why in sorted(ledger.trouble.items())))
    metrics = health.metrics
    metrics.counter(
        "headrace_bridge_rounds_total", "number of rounds in which the bridge has looked and acted", lambda: bridge.rounds
    )
    metrics.counter("headrace_bridge_steps_total", "number of steps that were taken", lambda: bridge.acting.taken)
    metrics.counter(
        "headrace_bridge_refused_total", "number of steps that the API server refused", lambda: bridge.acting.refused
    )


async def serve(environment: Mapping[str, str] = os.environ) -> None:
    """Run the bridge until cancelled. Raises what `settings` raises, and OSError without a usable address or certificate of the webhook."""
    setup = settings(environment)
    news = asyncio.Event()
    ledger = LedgerAccess(setup.place, news.set, wall_clock)
    health = Health("kubernetes")
    webhook = Webhook(setup.user)
    async with KubernetesApi(setup.access) as api, serving(health, read_config(environment)):
        bridge = Bridge(api, ledger, setup.cluster, setup.resource, news)
        watch(health, bridge, ledger)
        try:
            if setup.webhook is not None and setup.certificate is not None:
                await webhook.open(*setup.webhook, Certificate(setup.certificate).context)
            _log.info("started", cluster=setup.cluster, server=setup.access.server)
            await bridge.run()
        finally:
            await webhook.close()
            await ledger.close()
