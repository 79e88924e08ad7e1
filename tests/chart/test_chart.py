"""The chart, rendered by Helm itself, held against the schemas of every Kubernetes from 1.30 to 1.37, and against what Headrace writes.

It runs in an environment of its own (`make test-chart`), because Helm and the schemas take 350 MB.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from helm_python import Chart
from helm_python.errors import HelmError

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/headrace"
RELEASES = tuple(f"1.{minor}" for minor in range(30, 38))
SERVERS = {count: ",".join(f"tls://headrace-nats-{number}.headrace-nats" for number in range(count)) for count in (1, 3)}

Document = dict[str, Any]


def rendered(**values: Any) -> list[Document]:
    files = Chart.load(str(CHART)).render(values, name="headrace", namespace="gpus")
    texts = [text for name, text in sorted(files.items()) if name.endswith(".yaml")]
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


def named(documents: list[Document], kind: str) -> dict[str, Document]:
    return {document["metadata"]["name"]: document for document in documents if document["kind"] == kind}


def pods(documents: list[Document]) -> dict[str, Document]:
    """The specifications of all pods, by the name of what makes them."""
    made = {
        document["metadata"]["name"]: document["spec"]["template"]["spec"]
        for document in documents
        if "template" in document.get("spec", {})
    }
    return made | {name: document["spec"] for name, document in named(documents, "Pod").items()}


VARIANTS: dict[str, Document] = {
    "as it comes": {},
    "small": {"standbys": 0, "nats": {"servers": 1}, "networkPolicy": False, "prometheusAnnotations": False},
    "everything": {
        "imagePullSecrets": [{"name": "registry"}],
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "nats": {"storageClass": "fast", "external": {"enabled": True, "annotations": {"a": "b"}}},
        "data": {"storageClass": "fast"},
        "nodes": {"enabled": True, "arguments": ["--cpus", "96"]},
        "bridge": {
            "enabled": True,
            "api": "https://headrace.example",
            "webhook": {"authority": "Q0E=", "annotations": {"cert-manager.io/inject-ca-from": "gpus/bridge"}},
        },
    },
}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_what_helm_renders_is_valid_for_kubernetes(variant, release):
    documents = rendered(**VARIANTS[variant])
    assert len(documents) > 15
    for document in documents:
        kubernetes_validate.validate(document, release, strict=True)


def test_a_standby_is_there_only_where_it_is_wanted():
    assert len(named(rendered(), "Deployment")) == 14
    assert len(named(rendered(standbys=0), "Deployment")) == 10


@pytest.mark.parametrize(
    "values",
    [
        {"standbys": 3},
        {"nats": {"servers": 2}},
        {"nats": {"storage": "much"}},
        {"data": {"accessMode": "ReadWriteMany"}},
        {"nodes": {"enabled": "yes"}},
        {"api": {"port": 0}},
        {"bridge": {"replicas": 0}},
        {"bridge": {"api": "http://headrace-api:8080"}},
        {"bridge": {"enabled": True}},
        {"imgae": "x"},
    ],
)
def test_values_that_cannot_be_are_refused_by_helm_with_their_name(values):
    key = next(iter(values))
    with pytest.raises(HelmError, match=key):
        rendered(**values)


def test_no_volume_has_to_be_writable_by_several_nodes():
    documents = rendered(**VARIANTS["everything"])
    claims = [document["spec"] for document in named(documents, "PersistentVolumeClaim").values()]
    claims += [
        claim["spec"] for one in named(documents, "StatefulSet").values() for claim in one["spec"]["volumeClaimTemplates"]
    ]
    assert [claim["accessModes"] for claim in claims] == [["ReadWriteOnce"]] * 2
    for name, one in named(documents, "Deployment").items():
        pod = one["spec"]["template"]
        if name == "headrace-bridge":
            continue
        shares = any("persistentVolumeClaim" in volume for volume in pod["spec"]["volumes"])
        together = pod["spec"]["affinity"].get("podAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", [])
        assert shares == bool(together) == ("headrace.dev/data" in pod["metadata"]["labels"]), name


@pytest.mark.parametrize("count", SERVERS)
def test_every_file_that_a_pod_mounts_is_in_the_secret_that_headrace_prints(tmp_path, count):
    headrace = [os.environ["HEADRACE"], "config"]
    write = ["write", "--data", str(tmp_path), "--as", "/var/lib/headrace", "--nats", SERVERS[count], "--dev-ca"]
    more = [
        "--postgres",
        "postgresql://db/headrace",
        "--socket",
        "/run/headrace/api.sock",
        "--listen",
        "0.0.0.0:8080",
        "--metrics",
        "0.0.0.0",
    ]
    subprocess.run([*headrace, *write, *more], check=True, capture_output=True)
    printed = subprocess.run([*headrace, "secret", "--data", str(tmp_path)], check=True, capture_output=True, text=True).stdout
    secret = json.loads(printed)
    for release in RELEASES:
        kubernetes_validate.validate(secret, release, strict=True)
    documents = rendered(nats={"servers": count}, nodes={"enabled": True})
    asked = [
        item["key"]
        for pod in pods(documents).values()
        for volume in pod["volumes"]
        if volume.get("secret", {}).get("secretName") == secret["metadata"]["name"]
        for item in volume["secret"]["items"]
    ]
    assert set(asked) - set(secret["data"]) == set()


def test_a_service_gets_its_own_login_and_no_other_unless_it_shares_the_volume():
    for name, one in named(rendered(), "Deployment").items():
        volumes = {volume["name"]: volume for volume in one["spec"]["template"]["spec"]["volumes"]}
        assert len(volumes["own"]["secret"]["items"]) == 1
        assert ("files" in volumes) == ("persistentVolumeClaim" in volumes["data"]), name


def test_every_container_has_limits_and_no_rights_and_every_server_is_watched():
    documents = rendered()
    for name, pod in pods(documents).items():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in [*pod.get("initContainers", []), *pod["containers"]]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"], name
    servers = itertools.chain(named(documents, "Deployment").values(), named(documents, "StatefulSet").values())
    for one in servers:
        for container in one["spec"]["template"]["spec"]["containers"]:
            assert {"livenessProbe", "readinessProbe"} <= set(container), one["metadata"]["name"]


def test_nats_has_the_time_that_its_handover_takes():
    pod = named(rendered(), "StatefulSet")["headrace-nats"]["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 150
    assert "kill -USR2 1" in pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][2]


def test_executors_are_on_gpu_nodes_only_where_they_are_enabled():
    assert named(rendered(), "DaemonSet") == {}
    node = named(rendered(**VARIANTS["everything"]), "DaemonSet")["headrace-node"]["spec"]["template"]["spec"]
    assert node["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    (container,) = node["containers"]
    assert container["securityContext"]["privileged"] is True
    assert container["args"][1:] == ["executor", "--data=/var/lib/headrace-node", "--labels=site=hq", "--cpus", "96"]


def test_the_loop_of_an_executor_starts_it_again_and_ends_with_its_pod(tmp_path):
    """The very script of the DaemonSet, with a `headrace` that ends at once the first time."""
    (container,) = named(rendered(nodes={"enabled": True}), "DaemonSet")["headrace-node"]["spec"]["template"]["spec"][
        "containers"
    ]
    starts = tmp_path / "starts"
    groups = tmp_path / "cgroup/cgroup.procs"
    groups.parent.mkdir()
    groups.touch()
    program = tmp_path / "headrace"
    program.write_text(
        f'#!/bin/sh\necho "$HEADRACE_NATS_PASSWORD $*" >> {starts}\n[ $(wc -l < {starts}) = 1 ] || exec sleep 60\n'
    )
    program.chmod(0o755)
    (tmp_path / "gpu01").write_text("the-token")
    script = container["args"][0].replace("/etc/headrace/node", str(tmp_path)).replace("/sys/fs/cgroup", str(groups.parent))
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "NODE": "gpu01"}
    loop = subprocess.Popen(["sh", "-c", script, *container["args"][1:]], env=environment)
    try:
        while not starts.exists() or len(starts.read_text().splitlines()) < 2:
            assert loop.poll() is None
    finally:
        loop.terminate()
    assert loop.wait(10) in (0, 143)
    assert groups.read_text() == "0\n"
    line = "the-token node run --name gpu01 --data=/var/lib/headrace-node --labels=site=hq"
    assert starts.read_text().splitlines() == [line] * 2


def test_secrets_of_the_registry_tolerations_and_an_account_without_rights_hold_for_every_pod():
    documents = rendered(**VARIANTS["everything"])
    for name, pod in pods(documents).items():
        assert pod["imagePullSecrets"] == [{"name": "registry"}], name
        assert pod["serviceAccountName"] == ("headrace-bridge" if name == "headrace-bridge" else "headrace")
        if name != "headrace-node":  # which has those of `nodes`
            assert (pod["nodeSelector"], pod["tolerations"]) == ({"pool": "system"}, [{"key": "system", "operator": "Exists"}])
    (binding,) = named(documents, "ClusterRoleBinding").values()
    assert [subject["name"] for subject in binding["subjects"]] == ["headrace-bridge"]


def test_a_standby_prefers_another_node_than_its_first_instance_unless_both_need_the_volume():
    standbys = {name: one for name, one in named(rendered(), "Deployment").items() if name.endswith("-standby")}
    apart = {
        name: [
            term["podAffinityTerm"]["labelSelector"]["matchLabels"]["headrace.dev/module"]
            for term in one["spec"]["template"]["spec"]["affinity"]
            .get("podAntiAffinity", {})
            .get("preferredDuringSchedulingIgnoredDuringExecution", [])
        ]
        for name, one in standbys.items()
    }
    modules = ("allocator", "preemption", "provisioner")
    assert apart == {f"headrace-{module}-standby": [module] for module in modules} | {"headrace-feed-standby": []}


def test_nats_is_reached_by_our_pods_and_from_nodes_only_where_executors_are_there_or_it_is_published():
    def sources(**values):
        ingress = named(rendered(**values), "NetworkPolicy")["headrace-nats"]["spec"]["ingress"]
        return [rule.get("from") for rule in ingress if {"port": "nats"} in rule["ports"]]

    ours = [{"podSelector": {"matchLabels": {"app.kubernetes.io/instance": "headrace"}}}]
    assert sources() == [ours]
    assert sources(nats={"external": {"enabled": True}}) == [None]
    assert sources(nodes={"enabled": True}) == [None]  # an executor uses the network of its node
    assert named(rendered(networkPolicy=False), "NetworkPolicy") == {}
    assert "headrace-nats-external" not in named(rendered(), "Service")
    (published,) = [one for name, one in named(rendered(**VARIANTS["everything"]), "Service").items() if "external" in name]
    assert (published["spec"]["type"], published["spec"]["ports"][0]["port"]) == ("LoadBalancer", 4222)


def test_after_its_installation_one_is_told_how_to_test_it():
    notes = Chart.load(str(CHART)).render({}, name="headrace", namespace="gpus")["headrace/templates/NOTES.txt"]
    assert "helm test headrace --namespace gpus" in notes
    test = named(rendered(), "Pod")["headrace-health"]
    assert test["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert "http://headrace-api:8080/healthz" in test["spec"]["containers"][0]["command"][2]


def test_the_bridge_is_there_only_where_it_is_enabled_and_asks_for_a_few_rights():
    assert named(rendered(), "ClusterRole") == named(rendered(), "MutatingWebhookConfiguration") == {}
    documents = rendered(**VARIANTS["everything"])
    (role,) = named(documents, "ClusterRole").values()
    rights = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    watched = {(kind, verb) for kind in ("nodes", "pods") for verb in ("get", "list", "watch")}
    changed = {
        ("pods", "patch"),
        ("pods", "delete"),
        ("pods/status", "patch"),
        ("pods/eviction", "create"),
        ("events", "create"),
    }
    assert rights == watched | changed
    pod = named(documents, "Deployment")["headrace-bridge"]["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("headrace-bridge", True)
    others = [one for name, one in pods(documents).items() if name != "headrace-bridge"]
    assert {one["automountServiceAccountToken"] for one in others} == {False}


def test_the_webhook_sees_pods_and_jobs_of_queues_only_and_lets_none_of_them_by_while_it_is_away():
    (hooks,) = named(rendered(**VARIANTS["everything"]), "MutatingWebhookConfiguration").values()
    for hook in hooks["webhooks"]:
        assert hook["objectSelector"] == {"matchExpressions": [{"key": "headrace.dev/queue", "operator": "Exists"}]}
        assert hook["failurePolicy"] == "Fail"
        service = {"namespace": "gpus", "name": "headrace-bridge", "path": "/review", "port": 443}
        assert hook["clientConfig"] == {"service": service, "caBundle": "Q0E="}
    assert [hook["rules"][0]["operations"] for hook in hooks["webhooks"]] == [["CREATE", "UPDATE"], ["CREATE"]]
