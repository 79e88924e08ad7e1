"""Small histories, told fact by fact through codec, log and fold."""

from __future__ import annotations

import pytest

from headrace.bus.memory import MemoryLog
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group, Policy, PolicyProfile, Pool, Profile, Tenant
from headrace.contracts.facts.fact import DeviceShare, Ladder
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.records import Record, digest
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import ledger
from headrace.contracts.values.amounts import GPU, GPU_UNITS, JOB
from headrace.contracts.values.durations import SECOND
from headrace.domain.fold.ledger import FoldedLedger

START = 1_800_000_000 * SECOND
AUTHOR = "acme.alice"


def gpus(number):
    return {GPU: number * GPU_UNITS}


class Story:
    """A ledger under way. `note` is called behind every record with (record, sequence)."""

    def __init__(self):
        self.now = START
        self.log = MemoryLog(lambda: self.now)
        self.ledger = FoldedLedger()
        self.state = self.ledger.state
        self.note = lambda record, sequence: None

    def job(self, number, tenant="acme", user="alice"):
        return f"{tenant}.{user}.01k{number:023d}"

    def append(self, by, *facts):
        """Store a record without reading it, as another process would."""
        last = self.log.last_of(ledger(by))
        prev = ""
        if last is not None and not by.startswith("node."):
            prev = digest(last.payload)
        record = Record(by=by, now=self.now, engine="test", as_of=self.log.last_sequence, prev=prev, facts=facts)
        return self.log.append_now(ledger(by), encode(record), last.sequence if last else 0)

    def append_facts(self, by, *facts):
        """Store a record and fold it; the record as read."""
        sequence = self.append(by, *facts)
        (message,) = self.log.messages_after(sequence - 1)
        record = self.ledger.read(message)
        assert record is not None, self.ledger.void_reason
        self.note(record, sequence)
        return record

    def pass_time(self, seconds=1):
        self.now += seconds * SECOND

    def documents(self, *more):
        """Two tenants with a policy each; one pool for both."""
        self.append_facts(
            "governance",
            *(f.TenantAppliedV1(author=AUTHOR, tenant=Tenant(name=name)) for name in ("acme", "rival")),
            f.GroupAppliedV1(author=AUTHOR, group=Group(tenant="acme", name="dev", members=("alice", "bob"))),
            f.PoolAppliedV1(author=AUTHOR, pool=Pool(name="hall", selector={"site": "hq"})),
            f.ProfileAppliedV1(author=AUTHOR, profile=Profile(name="one", request=gpus(1), pools=("hall",))),
            f.ProfileAppliedV1(author=AUTHOR, profile=Profile(name="pair", request=gpus(1), replicas=2, pools=("hall",))),
            *(f.PolicyAppliedV1(author=AUTHOR, policy=policy(name)) for name in ("acme", "rival")),
            *more,
        )

    def node(self, name="gpu01", devices=4, labels=None, **more):
        self.append_facts(
            f"node.{name}",
            f.NodeRegisteredV1(
                node=name,
                labels=labels or {"site": "hq"},
                devices=tuple(Device(device=f"g{number}", model="H100-80GB", memory=81_920) for number in range(devices)),
                cpu=8_000,
                memory=65_536,
                at=self.now,
                **more,
            ),
        )

    def admit(self, key, profile="one", replicas=1, **more):
        self.append_facts(
            "admission",
            f.JobAdmittedV1(job=key, policy="dev", profile=profile, request=gpus(1), replicas=replicas, **more),
        )

    def grant(self, key, *places, attempt=1, **more):
        """`places`: (node, device) for each replica."""
        self.append_facts("allocator", *self.grants(key, *places, attempt=attempt, **more))

    def grants(self, key, *places, attempt=1, **more):
        return [
            f.LeaseGrantedV1(
                job=key,
                attempt=attempt,
                rank=rank,
                node=node,
                pool="hall",
                devices=(DeviceShare(device=device, units=GPU_UNITS),),
                amounts=gpus(1) | ({JOB: 1} if rank == 0 else {}),
                **more,
            )
            for rank, (node, device) in enumerate(places)
        ]

    def start(self, key, node="gpu01", rank=0, attempt=1):
        self.append_facts(f"node.{node}", f.LeaseStartedV1(job=key, attempt=attempt, rank=rank, at=self.now))

    def stop(self, key, cause="cancelled", attempt=1, preemptor=""):
        self.append_facts("allocator", f.StopOrderedV1(job=key, attempt=attempt, ladder=ladder(cause, preemptor)))

    def end(self, key, node="gpu01", exit_code=0, attempt=1, rank=0, **more):
        ended = {"outcome": "exited", "exit_code": exit_code, "exited_at": self.now, "at": self.now} | more
        self.append_facts(f"node.{node}", f.LeaseEndedV1(job=key, attempt=attempt, rank=rank, **ended))

    def finish(self, key, state="succeeded", attempt=1, exit_code=0):
        self.append_facts("allocator", f.JobEndedV1(job=key, attempt=attempt, state=state, cause="exited", exit_code=exit_code))


def policy(tenant, **more):
    links = (PolicyProfile(name="one"), PolicyProfile(name="pair"))
    return Policy(**({"tenant": tenant, "name": "dev", "group": "dev", "profiles": links, "reservation": gpus(2)} | more))


def ladder(cause, preemptor=""):
    then = "requeue" if cause == "preempted" else "cancel"
    return Ladder(cause=cause, callback_grace=60 * SECOND, term_grace=30 * SECOND, then=then, preemptor=preemptor)


@pytest.fixture
def story():
    """An empty ledger to tell a story in."""
    return Story()


@pytest.fixture
def hall(story):
    """A story that has its documents, and one node with four GPUs."""
    story.documents()
    story.node()
    return story


@pytest.fixture
def policy_of():
    """`policy_of("acme", limit=…)`: the policy `dev` of a tenant, with some things otherwise."""
    return policy
