"""The gate bridge as a process of its own: a whole installation on one side, an API server over HTTP on the other."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.client.endpoint import read_endpoint
from headrace.contracts.facts.levels import LEVEL
from headrace.kubernetes.objects import FINALIZER, GATE, QUEUE
from headrace.supervisor.network.certificates import development
from headrace.supervisor.network.ports import free_port
from tests.integration.api import Api, installation
from tests.integration.api import until as until_true
from tests.kubernetes.cluster import GPU, Cluster
from tests.kubernetes.fake_api import TOKEN, FakeApi
from tests.patience import PATIENCE

SERVICE = "headrace-bridge.gpus.svc"

DOCUMENTS = {
    "pools": [{"name": "k8s", "selector": {"site": "k8s"}}],
    "profiles": [{"name": "pod", "request": {"gpu": 2}, "pools": ["k8s"]}],
    "groups": [{"tenant": "emca", "name": "robots", "service_accounts": ["pods"]}],
    "policies": [{"tenant": "emca", "name": "robots", "group": "robots", "profiles": ["pod"]}],
}


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with installation() as made:
        shares = [{"pool": "hq", "reservation": {"gpu": 2}, "limit": {"gpu": 8}}, {"pool": "k8s", "limit": {"gpu": 8}}]
        tenants = {"tenants": [{"name": "emca", "admins": ["chief"], "shares": shares}]}
        made.done("root", "POST", "/v1/documents:apply", {"documents": DOCUMENTS | tenants})
        until_true(lambda: json.loads(made.run("status", "--json"))["level"]["stated"] == LEVEL)
        yield made


@pytest.fixture
def tokens(api: Api, tmp_path: Path) -> Path:
    """The two directories of tokens, as Secrets are mounted."""
    for folder in ("nodes", "accounts"):
        (tmp_path / folder).mkdir()
    node = api.run("token", "create", "--node", "n1", "--labels", "site=k8s", "--gpus", "2", "--isolation", "none")
    (tmp_path / "nodes/n1").write_text(node)
    account = api.run("token", "create", "--service-account", "pods", "--tenant", "emca")
    (tmp_path / "accounts/science").write_text(account)
    return tmp_path


@pytest.fixture
def authority(tmp_path: Path) -> ssl.SSLContext:
    """Trust in the authority that made the webhook's certificate, which lies in `webhook` as a Secret is mounted."""
    made = development(tmp_path / "authority", [SERVICE])
    (tmp_path / "webhook").mkdir()
    shutil.copy(made.certificate, tmp_path / "webhook/tls.crt")
    shutil.copy(made.key, tmp_path / "webhook/tls.key")
    return ssl.create_default_context(cafile=made.ca)


def bridge(api: Api, tokens: Path, server: str, webhook: int) -> subprocess.Popen[bytes]:
    endpoint = read_endpoint(api.data)
    assert endpoint is not None
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
    }
    (tokens / "kubeconfig").write_text(json.dumps(config))
    environment = os.environ | {
        "KUBECONFIG": str(tokens / "kubeconfig"),
        "HEADRACE_NATS_URL": endpoint.url,
        "HEADRACE_SERVER": api.address,
        "HEADRACE_KUBERNETES_NODE_TOKENS": str(tokens / "nodes"),
        "HEADRACE_KUBERNETES_ACCOUNT_TOKENS": str(tokens / "accounts"),
        "HEADRACE_KUBERNETES_WEBHOOK": f"127.0.0.1:{webhook}",
        "HEADRACE_KUBERNETES_CERTIFICATE": str(tokens / "webhook"),
        "HEADRACE_KUBERNETES_USER": "system:serviceaccount:gpus:headrace-bridge",
    }
    with (tokens / "log").open("ab") as log:
        return subprocess.Popen([sys.executable, "-m", "headrace.kubernetes"], env=environment, stdout=log, stderr=log)


async def play(cluster: Cluster) -> None:
    while True:
        for pod in cluster.pods():
            cluster.schedule(pod)
            cluster.start(pod)
            if pod["metadata"]["name"] == "short":
                cluster.finish(pod, 0)
            cluster.terminate(pod)
        await asyncio.sleep(0.01)


async def until(condition, tokens: Path) -> None:
    try:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError((tokens / "log").read_text()) from None


async def admitted(trust: ssl.SSLContext, port: int, pod: dict[str, Any]) -> dict[str, Any]:
    """A new pod as the webhook leaves it, which is asked as an API server does: by the name of the Service, and again while it starts."""
    request = {"uid": "1", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "Pod"}, "object": pod}
    asked = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    async with httpx.AsyncClient(verify=trust, trust_env=False, timeout=PATIENCE) as client, asyncio.timeout(PATIENCE):
        while True:
            try:
                url = f"https://127.0.0.1:{port}/review?timeout=5s"
                answer = await client.post(url, json=asked, headers={"Host": SERVICE}, extensions={"sni_hostname": SERVICE})
                break
            except httpx.ConnectError:
                await asyncio.sleep(0.1)
    response = answer.json()["response"]
    assert (answer.status_code, response["uid"], response["allowed"], response["patchType"]) == (200, "1", True, "JSONPatch")
    (change,) = json.loads(base64.b64decode(response["patch"]))
    assert (change["op"], change["path"]) == ("add", "/spec/schedulingGates")
    return {**pod, "spec": {**pod["spec"], "schedulingGates": change["value"]}}


def body(name: str, gpus: str) -> dict:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {GPU: gpus}}}
    meta = {"namespace": "science", "name": name, "labels": {QUEUE: "robots.pod"}}
    return {"metadata": meta, "spec": {"containers": [container]}}


async def test_pods_run_and_end_by_grants_of_a_whole_installation_and_outlive_the_bridge(
    api: Api, tokens: Path, authority: ssl.SSLContext
) -> None:
    cluster = Cluster()
    cluster.node("n1", 2, site="k8s")
    async with FakeApi(cluster) as fake:
        playing = asyncio.ensure_future(play(cluster))
        webhook = free_port()
        process = bridge(api, tokens, fake.url, webhook)
        try:
            short = await admitted(authority, webhook, body("short", "1"))
            assert short["spec"]["schedulingGates"] == [{"name": GATE}]
            cluster.create("pods", short, gated=False)

            def of(name: str) -> dict:
                return cluster.get("pods", "science", name)

            await until(lambda: of("short")["status"]["phase"] == "Succeeded", tokens)
            await until(lambda: FINALIZER not in of("short")["metadata"].get("finalizers", ()), tokens)
            cluster.create("pods", body("long", "2"))
            await until(lambda: of("long")["status"]["phase"] == "Running", tokens)
            process.kill()
            process.wait()
            process = bridge(api, tokens, fake.url, webhook)
            jobs = "/v1/tenants/emca/jobs"
            listed = await asyncio.to_thread(api.done, "root", "GET", jobs)
            found = {job["display_name"]: job["state"] for job in listed["jobs"]}
            assert found == {"short": "succeeded", "long": "running"}
            long = next(job["name"] for job in listed["jobs"] if job["display_name"] == "long")
            await asyncio.to_thread(api.done, "root", "POST", f"{jobs}:cancel", {"jobs": [long], "reason": "enough"})
            await until(lambda: ("pods", "science", "long") not in cluster.objects, tokens)
            cancelled = await asyncio.to_thread(api.until, "root", long, "cancelled")
            assert cancelled["state"] == "cancelled"
        finally:
            playing.cancel()
            process.terminate()
            await asyncio.to_thread(process.wait)
            await asyncio.gather(playing, return_exceptions=True)
    assert process.returncode == 0, (tokens / "log").read_text()
