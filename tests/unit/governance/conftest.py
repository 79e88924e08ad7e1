"""An installation whose history is written fact by fact, for tables of documents against what governance says to them."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import dedent

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Documents
from headrace.contracts.documents.reader import read_documents
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.records import Record
from headrace.contracts.values.amounts import GPU, GPU_UNITS, JOB
from headrace.contracts.values.ids import make_job_id
from headrace.domain.fold.apply import apply
from headrace.domain.state.state import State
from headrace.governance.objects import applied, placed
from headrace.governance.plan import ApplyPlan, make_plan

AUTHOR = "default.admin"

BASE = """
groups: [{name: all, members: [ann]}]
pools: [{name: west, selector: {site: west}}, {name: east, selector: {site: east}}]
profiles:
  - {name: one, request: {gpu: 1}, pools: [west]}
  - {name: three, request: {gpu: 3}, pools: [west]}
  - {name: both, request: {gpu: 1}, pools: [west, east]}
"""
"""A group, two pools and three profiles; policies are the tests' own."""


def documents(text: str) -> Documents:
    return read_documents(read_tree(dedent(text)))


class Installation:
    """A state, and the means to make history."""

    def __init__(self) -> None:
        self.state = State()
        self.jobs = 0

    def append_facts(self, *facts: AnyFact, by: str = "governance") -> None:
        """One record."""
        sequence = self.state.sequence + 1
        apply(self.state, Record(by=by, now=sequence * 1_000, engine="test", as_of=sequence - 1, facts=facts), sequence)
        self.state.writers[by] = (sequence, "")

    def write(self, text: str) -> None:
        """Documents in force, without a look at them."""
        self.append_facts(*(applied(document, AUTHOR) for _, document, _ in placed(documents(text))))

    def plan(self, text: str, **options: object) -> ApplyPlan:
        """The plan for documents."""
        return make_plan(self.state, documents(text), AUTHOR, **options)

    def node(self, name: str, gpus: int = 8, model: str = "H100-80GB", **labels: str) -> None:
        """A node with 64 CPUs and 1 TiB."""
        devices = tuple(Device(device=f"gpu{number}", model=model, memory=81_920) for number in range(gpus))
        registered = f.NodeRegisteredV1(
            node=name, labels=labels, devices=devices, cpu=64_000, memory=1_048_576, at=self.state.now
        )
        self.append_facts(registered, by=f"node.{name}")

    def job(self, queue: str, gpus: int = 1, *, tenant: str = "default", user: str = "ann", on: str = "") -> str:
        """A pending job, or one that holds whole devices, the first free ones of the node `on`."""
        policy, profile = queue.split("/")
        self.jobs += 1
        key = f"{tenant}.{user}.{make_job_id(self.jobs, bytes(10))}"
        amounts = {GPU: gpus * GPU_UNITS}
        self.append_facts(f.JobAdmittedV1(job=key, policy=policy, profile=profile, request=amounts), by="admission")
        if on:
            node = self.state.nodes[on]
            free = [device.name for device in node.devices if device.free == GPU_UNITS][:gpus]
            granted = f.LeaseGrantedV1(
                job=key,
                attempt=1,
                node=on,
                pool=node.pool,
                devices=tuple(DeviceShare(device=device, units=GPU_UNITS) for device in free),
                amounts={**amounts, JOB: 1},
            )
            self.append_facts(granted, by="allocator")
        return key

    def release(self, key: str) -> None:
        """The job's lease ends, and the job with it."""
        job = self.state.jobs[key]
        (lease,) = job.leases.values()
        ending = {"outcome": "exited", "exit_code": 0, "exited_at": self.state.now, "at": self.state.now}
        self.append_facts(f.LeaseEndedV1(job=key, attempt=job.attempt, rank=0, **ending), by=f"node.{lease.node}")
        self.append_facts(
            f.JobEndedV1(job=key, attempt=job.attempt, state="succeeded", cause="exited", exit_code=0), by="allocator"
        )


@pytest.fixture
def installation() -> Iterator[Installation]:
    """Nothing written yet."""
    return Installation()


@pytest.fixture
def site(installation: Installation) -> Installation:
    """The documents of `BASE`, a node of 10 GPUs in west and one of 4 in east."""
    installation.write(BASE)
    installation.node("w1", 10, site="west")
    installation.node("e1", 4, site="east")
    return installation
