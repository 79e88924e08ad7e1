"""The chart's DaemonSet on a real Podman: its pod as Helm renders it, with the same mounts, namespaces and privileges.

No kubelet is here, so Podman is given what the pod says. Three things differ: NATS is reached by the address of this machine, the
directory of the node lies in the test's own folder, and the GPUs are simulated. All of it is in a network of the test's own, which has the
metadata service of a cloud: rules of this machine stay as they are. What a kubelet does when a container has ended, or its
pod was replaced, is done by hand: the container is removed with all its processes, and another one is made.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from headrace.client.endpoint import read_endpoint
from headrace.node_executor.system import orphans
from tests.deploy.images import HEADRACE, ROOT, Engine, missing
from tests.integration.machine import Machine, new_machine
from tests.private_network import REACHES, WHY_NOT, entered, private_network

NODE, NAME = "gpu01", "headrace-daemonset"
RENDER = """
import json, sys
from helm_python import Chart
files = Chart.load(sys.argv[1]).render(json.loads(sys.argv[2]), name="headrace", namespace="gpus")
print(files[next(name for name in files if name.endswith("nodes.yaml"))])
"""
DOCUMENTS = """
groups: [{name: rnd, members: [alice]}]
pools: [{name: onprem, selector: {site: pod}}]
profiles: [{name: one, request: {gpu: 1}, pools: [onprem]}]
policies: [{name: rnd, group: rnd, profiles: [one], reservation: {gpu: 1}, limit: {gpu: 2}}]
"""
WAITS = "echo begun; until [ -e go ]; do sleep 0.1; done; echo ended; exit 3"


class Pod:
    """The pod's one container. `place`: the directory of its volumes on this machine, by the volume's name."""

    def __init__(self, engine: Engine, spec: dict[str, Any], place: dict[str, str], variables: dict[str, str]) -> None:
        (container,) = spec["containers"]
        security = container["securityContext"]
        assert (spec["hostPID"], spec["hostNetwork"], security["privileged"]) == (True, True, True)
        environment = {"NODE": NODE}
        for one in container["env"]:
            environment.setdefault(one["name"], one.get("value", "").replace("$(NODE)", NODE))
        environment |= variables
        hosts = {one["name"]: one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
        self._engine = engine
        self._words = [
            *("run", "--detach", "--name", NAME, "--pid=host", "--network=host", "--privileged"),
            *("--user", f"{security['runAsUser']}:{security['runAsGroup']}", "--entrypoint", json.dumps(container["command"])),
            *(word for name, value in environment.items() for word in ("--env", f"{name}={value}")),
        ]
        for mount in container["volumeMounts"]:
            source = place.get(mount["name"]) or hosts[mount["name"]]
            bound = "rbind,ro" if mount.get("readOnly") else "rbind"
            self._words += ["--volume", f"{source}:{mount['mountPath']}:{bound}"]
        self._words += [container["image"], *container["args"]]

    def make(self) -> None:
        self._engine.call(*self._words)

    def remove(self) -> None:
        """The end of the container: the runtime kills all processes in its control groups."""
        self._engine.call("rm", "--force", "--time=0", "--ignore", NAME)

    def logs(self) -> str:
        return self._engine.call("logs", "--tail=40", NAME, check=False)


@pytest.fixture
def site() -> Iterator[tuple[Machine, Pod]]:
    """An installation, and the pod of one of its nodes."""
    if reason := missing() or WHY_NOT:
        pytest.fail(reason)
    engine = Engine()
    engine.headrace()
    with private_network() as within, entered(within), new_machine() as machine:
        folder = machine.data.parent
        machine.up("--dev-ca", "--reached-as", "localhost")
        Path(machine.documents).write_text(DOCUMENTS)
        machine.done("apply", "-f", machine.documents)
        machine.until(
            lambda: machine.run("token", "create", "--node", NODE, "--labels", "site=pod", "--gpus", "2").returncode == 0
        )
        token = machine.done("token", "create", "--node", NODE, "--labels", "site=pod", "--gpus", "2")
        node = folder / "node"
        (folder / "tokens").mkdir()
        (folder / "tokens" / NODE).write_text(token)
        arguments = ["--devices", "sim:2xH100-80GB"]
        nodes = {"enabled": True, "data": str(node), "labels": "site=pod", "arguments": arguments}
        values = json.dumps({"image": HEADRACE, "nodes": nodes})
        command = [str(ROOT / ".chart/bin/python"), "-c", RENDER, str(ROOT / "deploy/helm/headrace"), values]
        rendered = subprocess.run(command, check=True, capture_output=True, text=True)
        spec = yaml.safe_load(rendered.stdout)["spec"]["template"]["spec"]
        node.mkdir(mode=0o755)  # as a kubelet makes it for `DirectoryOrCreate`
        endpoint = read_endpoint(machine.data)
        assert endpoint is not None
        place = {"tokens": str(folder / "tokens"), "tls": str(machine.data / "tls")}
        pod = Pod(engine, spec, place, {"HEADRACE_NATS_URL": endpoint.url})
        pod.remove()
        try:
            pod.make()
            machine.until(lambda: states(machine).get(NODE) == "ready")
            yield machine, pod
        finally:
            sys.stderr.write(pod.logs())  # if it failed
            pod.remove()
            machine.until(lambda: executors(node) == [])
            orphans.sweep(f"{node}/leases")


def states(machine: Machine) -> dict[str, str]:
    ran = machine.run("nodes", "--json")
    return {node["name"]: node["state"] for node in json.loads(ran.stdout)} if ran.returncode == 0 else {}


def executors(node: Path) -> list[int]:
    """The executors of this directory."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if "headrace.node_executor" in words and any(str(node) in word for word in words):
            found.append(process.pid)
    return found


def test_a_job_outlives_its_executor_and_its_container_and_the_next_one_states_how_it_ended(site: tuple[Machine, Pod]) -> None:
    machine, pod = site
    node = machine.data.parent / "node"
    job = machine.submit(WAITS, "--workdir", "")
    machine.until_state(job, "running")

    def replaced(end: Any) -> None:
        (before,) = executors(node)
        end(before)
        machine.until(lambda: len(executors(node)) == 1 and executors(node) != [before])

    replaced(lambda pid: os.kill(pid, signal.SIGKILL))

    def another_container(_pid: int) -> None:
        pod.remove()
        machine.until(lambda: executors(node) == [])
        pod.make()

    replaced(another_container)
    machine.until(lambda: states(machine).get(NODE) == "ready")
    assert machine.job(job)["state"] == "running"
    (work,) = node.glob("leases/*/work")
    (work / "go").touch()
    machine.until_state(job, "failed")
    shown = machine.job(job)
    assert [attempt["exit_code"] for attempt in shown["attempts"]] == [3]
    assert machine.done("logs", "--user", "alice", job) == "begun\nended\n"


def test_jobs_are_held_to_control_groups_outside_of_the_container(site: tuple[Machine, Pod]) -> None:
    machine, _ = site
    job = machine.submit("cat /proc/self/cgroup; until [ -e go ]; do sleep 0.1; done", "--workdir", "")
    machine.until_state(job, "running")
    machine.until(lambda: "headrace." in machine.done("logs", "--user", "alice", job))
    printed = machine.done("logs", "--user", "alice", job)
    held = [line.split(":", 2)[2] for line in printed.splitlines() if "headrace." in line]
    assert held
    assert all(path.startswith("/headrace.gpu01.") for path in held), printed
    assert not any("libpod" in line for line in printed.splitlines()), printed
    machine.done("cancel", "--user", "alice", job)
    machine.until_state(job, "cancelled")


def test_jobs_cannot_reach_the_metadata_service_of_a_cloud_and_root_of_the_node_can(site: tuple[Machine, Pod]) -> None:
    machine, _ = site
    reaches = REACHES.replace("PORT", "80")
    by_root = subprocess.run([sys.executable, "-c", reaches], check=True, capture_output=True, text=True)
    assert by_root.stdout == "reached\n"
    words = ("--queue", "rnd/one", "--user", "alice", "--workdir", "", "--wait", "--", "python3", "-c", reaches)
    job = machine.done("submit", *words).split()[0]
    assert machine.done("logs", "--user", "alice", job) == "refused\n"
