"""An executor of root in a virtual machine, under its unit, with NVIDIA GPUs of the mock: what only another kernel shows.

The installation is on this machine, and the executor reaches it over QEMU's user network. The kernel inside has control groups of
version 2 alone. Its clock is set by an hour, and it is restarted with jobs running: what the executor states then, and what the books say.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from headrace.client.endpoint import read_endpoint
from headrace.contracts.values.amounts import GPU_UNITS
from tests.deploy.images import Engine
from tests.deploy.virtual_machine import HOST, VirtualMachine, made_disk, missing_here
from tests.integration.machine import Machine, new_machine
from tests.mock_nvml import LIBRARIES, STATE
from tests.mock_nvml import Machine as Gpus

NODE, MOCK, WITHIN = "gpu01", "/opt/mock", 600.0
HOUR, SECOND = 3_600, 1_000_000
TOLERANCE = 15
"""Seconds by which times may differ: a start of a program inside takes some."""
DOCUMENTS = """
groups: [{name: rnd, members: [alice]}]
pools: [{name: onprem, selector: {site: vm}}]
profiles: [{name: one, request: {gpu: 1, cpu: 0.5, memory: 192MiB}, pools: [onprem]}]
policies: [{name: rnd, group: rnd, profiles: [one], reservation: {gpu: 2}, limit: {gpu: 2}}]
"""
GROUP = "group=/sys/fs/cgroup$(dirname $(cut -d: -f3 /proc/self/cgroup))"
"""In a job: the group of its lease, which has the limits; its processes are in a group below."""
SPINS = """
import time
began = time.monotonic()
while time.monotonic() - began < 10: pass
print(time.process_time() / (time.monotonic() - began))
"""
OPENS = """
import json, os
def tried(path):
    try:
        os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return error.strerror
    return "opened"
own = int(os.environ["CUDA_VISIBLE_DEVICES"].split("-")[1][-1])
group = "/sys/fs/cgroup" + open("/proc/self/cgroup").read().strip().split(":")[2]
left = [tried(f"{path}/cgroup.procs") for path in (os.path.dirname(os.path.dirname(group)), "/sys/fs/cgroup")]
print(json.dumps([tried(f"/dev/nvidia{own}"), tried(f"/dev/nvidia{1 - own}"), tried("/dev/null"), tried("/dev/full"), left]))
"""


class Site:
    """The installation, and the machine with its only node."""

    def __init__(self, here: Machine, inside: VirtualMachine) -> None:
        self.here, self.inside = here, inside

    def until(self, what: str, holds: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + WITHIN
        while not (found := holds()):
            if time.monotonic() > deadline:
                journal = self.inside.type("journalctl --no-pager --lines 60 --unit headrace-node", check=False)
                raise AssertionError(f"not within {WITHIN:g} s: {what}\n{journal}\n{self.here.logs()}")
            time.sleep(0.5)
        return found

    def node(self) -> dict[str, Any]:
        ran = self.here.run("nodes", "--json")
        nodes = json.loads(ran.stdout) if ran.returncode == 0 else []
        return next((node for node in nodes if node["name"] == NODE), {})

    def until_ready(self) -> None:
        self.until("the node is ready", lambda: self.node().get("state") == "ready")

    def submit(self, *command: str) -> str:
        return self.here.done("submit", "--queue", "rnd/one", "--user", "alice", "--workdir", "", "--", *command).strip()

    def until_state(self, job: str, state: str) -> dict[str, Any]:
        shown: dict[str, Any] = self.until(f"{job} is {state}", lambda: self._reached(job, state))
        assert shown["state"] == state, f"{shown}\n{self.printed(job)}"
        return shown

    def _reached(self, job: str, state: str) -> dict[str, Any] | None:
        shown = self.here.job(job)
        return shown if shown["state"] in (state, "succeeded", "failed", "cancelled") else None

    def printed(self, job: str) -> str:
        return self.here.done("logs", "--user", "alice", job)

    def result(self, *command: str) -> str:
        """What a job prints that ends well."""
        job = self.submit(*command)
        self.until_state(job, "succeeded")
        return self.printed(job)

    def facts(self, job: str) -> list[dict[str, Any]]:
        """The facts about a job that the node has stated."""
        lines = map(json.loads, self.here.done("audit", "log", "--job", job, "--json").splitlines())
        return [line["fact"] for line in lines if line["by"] == f"node.{NODE}"]

    def charged(self, job: str) -> float:
        """Seconds of a whole GPU in the books, once they have all of it."""
        self.here.until_archived()
        rows = json.loads(self.here.done("usage", "--by", "job", "--json"))["rows"]
        return (
            sum(int(row["exact"]["total"]) for row in rows if row["job"].endswith(job) and row["unit"] == "GPU-hours")
            / GPU_UNITS
            / SECOND
        )

    def set_clock(self, by: float = 0.0) -> None:
        """Set the clock inside to that of this machine plus `by` seconds."""
        self.inside.type(f"date --set @{time.time() + by:.3f}")


@pytest.fixture(scope="module")
def site(mock_machine: Gpus, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if reason := missing_here():
        pytest.fail(reason)
    made = made_disk(Engine())
    mock_machine.reset()
    with new_machine() as here:
        here.up()
        Path(here.documents).write_text(DOCUMENTS)
        here.done("apply", "-f", here.documents)
        claims = ("token", "create", "--node", NODE, "--labels", "site=vm", "--gpus", "2", "--isolation", "hardware")
        here.until(lambda: here.run(*claims).returncode == 0)  # refused until the installation has reached its level
        endpoint = read_endpoint(here.data)
        assert endpoint is not None
        lines = {
            "HEADRACE_NATS_URL": f"nats://{HOST}:{urlsplit(endpoint.url).port}",
            "HEADRACE_NATS_USER": f"node_{NODE}",
            "HEADRACE_NATS_PASSWORD": here.done(*claims).strip(),
            "HEADRACE_NODE_ARGUMENTS": "--labels site=vm --devices nvml",
            "LD_LIBRARY_PATH": MOCK,
            STATE: f"{MOCK}/state",
        }
        inside = VirtualMachine(made, tmp_path_factory.mktemp("machine"))
        try:
            inside.type(f"mkdir -p {MOCK}")
            for library in LIBRARIES.values():
                inside.put(f"{MOCK}/{library}", (mock_machine.libraries / library).read_bytes(), 0o755)
            inside.put(f"{MOCK}/state", mock_machine.state.read_bytes(), 0o666)
            nodes = "".join(f"c /dev/nvidia{number} 0666 root root - 195:{number}\n" for number in range(2))
            inside.put("/etc/tmpfiles.d/gpus.conf", nodes.encode())
            inside.put("/etc/headrace/node.env", "".join(f"{name}={value}\n" for name, value in lines.items()).encode(), 0o600)
            inside.type("systemd-tmpfiles --create gpus.conf; systemctl enable --now headrace-node")
            whole = Site(here, inside)
            whole.until_ready()
            yield whole
        finally:
            inside.end()


def test_a_job_is_held_to_its_limits_by_control_groups_of_version_2(site: Site) -> None:
    files = "cat $group/memory.max $group/memory.swap.max $group/memory.oom.group $group/cpu.max $group/pids.max"
    expected = [str(192 << 20), "0", "1", "50000 100000", "16384"]
    assert site.result("sh", "-c", f"{GROUP}; {files}").splitlines() == expected


def test_a_job_has_no_more_than_its_part_of_a_processor(site: Site) -> None:
    part = float(site.result("python3", "-c", SPINS))
    assert 0.2 < part < 0.6


def test_a_job_that_takes_more_memory_than_it_has_is_killed_and_the_reason_is_stated(site: Site) -> None:
    job = site.submit("tail", "/dev/zero")
    site.until_state(job, "failed")
    (ended,) = [fact for fact in site.facts(job) if fact["type"].startswith("lease.ended")]
    reason = "out of memory: it used all of its 192 MiB of memory, and the kernel killed all of its processes"
    assert (ended["outcome"], ended["exit_code"], ended["message"]) == ("exited", 137, reason)


def test_a_job_opens_its_own_gpu_and_no_other_and_cannot_leave_its_group(site: Site) -> None:
    assert site.node()["isolation"]["whole"] == "hardware"
    # The driver is not there, so its own node is "No such device": the kernel let it through to the driver.
    no, denied = "Operation not permitted", "Permission denied"
    expected = ["No such device or address", no, "opened", no, [denied, denied]]
    assert json.loads(site.result("python3", "-c", OPENS)) == expected


@pytest.mark.parametrize("step", [HOUR, -HOUR])
def test_a_clock_that_is_set_by_an_hour_changes_neither_what_is_stated_nor_what_is_charged(site: Site, step: int) -> None:
    site.set_clock()
    job = site.submit("sh", "-c", f"until [ -e /tmp/go{step} ]; do sleep 0.2; done; exit 3")
    site.until_state(job, "running")
    began = time.time()
    site.until("it has run for a while", lambda: time.time() > began + 20)
    try:
        site.set_clock(step)
        other = site.submit("true")
        site.until_state(other, "succeeded")  # begun and ended while the clock is wrong
        site.until("it has run for a while longer", lambda: time.time() > began + 40)
        site.inside.type(f"touch /tmp/go{step}")
        site.until_state(job, "failed")
        ended = time.time()
    finally:
        site.set_clock()
    times = [fact[name] for each in (job, other) for fact in site.facts(each) for name in ("at", "exited_at") if name in fact]
    assert all(began - 60 < at / SECOND < ended + 5 for at in times), times
    assert site.charged(job) == pytest.approx(ended - began, abs=TOLERANCE)
    assert 0 < site.charged(other) < ended - began
    assert site.node()["state"] == "ready"


@pytest.mark.parametrize(("how", "code"), [("reboot", 143), ("cut_power", None)])
def test_a_job_that_ran_when_the_machine_restarted_is_lost_and_begins_again(site: Site, how: str, code: int | None) -> None:
    job = site.submit("sh", "-c", "[ $HEADRACE_ATTEMPT -gt 1 ] || exec sleep 3000")
    site.until_state(job, "running")
    began = time.time()
    site.until("it has run for a while", lambda: time.time() > began + 20)
    getattr(site.inside, how)()
    back = time.time()
    shown = site.until_state(job, "succeeded")
    ended = time.time()
    # A restart that takes longer than a node may be silent also has facts about the order to stop, which came with the lease's loss.
    facts = [fact for fact in site.facts(job) if fact["type"] != "lease.rung.v1"]
    stated = [(fact["type"], fact["attempt"], fact.get("outcome")) for fact in facts]
    assert stated == [
        ("lease.started.v1", 1, None),
        ("lease.ended.v1", 1, "lost"),
        ("lease.started.v1", 2, None),
        ("lease.ended.v1", 2, "exited"),
    ]
    # In an orderly restart the executor ends the job; without power it learns of its end when it is back.
    assert [attempt["exit_code"] for attempt in shown["attempts"]] == [code, 0]
    if how == "reboot":
        assert [fact["message"] for fact in facts if fact.get("outcome") == "lost"] == ["the machine was being shut down"]
    # The first attempt is charged until the node states its end.
    assert 20 <= site.charged(job) <= ended - began + TOLERANCE
    assert back > began
