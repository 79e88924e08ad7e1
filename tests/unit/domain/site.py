"""A site told fact by fact, without a decider: pools of GPU nodes, policies that share some profiles, what is said of jobs.

Where `hall` has one pool and words for it, this takes any documents: several pools, tenants' shares, fractions, cpu and memory.
"""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.fact import DeviceShare, Ladder, Place
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.preemption import Victim
from headrace.contracts.facts.records import Record
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, JOB, MEMORY
from headrace.contracts.values.durations import SECOND
from headrace.domain.fold.apply import apply
from headrace.domain.model.jobs import JobRecord
from headrace.domain.model.time_rules import TimeRules
from headrace.domain.state.state import State

START = 1_000_000 * SECOND
GIB = 1024
HALF = GPU_UNITS // 2


def gpus(count: int, **other: int) -> dict[str, int]:
    """This number of whole GPUs, and whatever else is named."""
    return {GPU: count * GPU_UNITS, **other}


def pool(name: str = "hall", **more: object) -> d.Pool:
    """A pool of the nodes whose label `pool` is its name."""
    return d.Pool(**{"name": name, "selector": {"pool": name}, **more})


def profile(name: str, request: dict[str, int] | None = None, **more: object) -> d.Profile:
    """A profile of one GPU in the hall, unless told otherwise."""
    return d.Profile(**{"name": name, "request": request or gpus(1), "pools": ("hall",), **more})


PROFILES = (
    profile("one"),
    profile("two", gpus(2)),
    profile("half", {GPU: HALF}),
    profile("gang", replicas=2),
    profile("cpu", {CPU: 2 * CPU_UNITS, MEMORY: 4 * GIB}),
)


def policy(name: str = "dev", **more: object) -> d.Policy:
    """A policy that links every profile above."""
    return d.Policy(**{"name": name, "profiles": tuple(d.PolicyProfile(name=link.name) for link in PROFILES), **more})


def place(node: str, *devices: int, units: int = GPU_UNITS, job: bool = True, **other: int) -> Place:
    """Devices of a node by number, with what one replica there is charged."""
    shares = tuple(DeviceShare(device=f"gpu{number}", units=units) for number in devices)
    amounts = ({GPU: units * len(devices)} if devices else {}) | ({JOB: 1} if job else {}) | other
    return Place(node=node, devices=shares, amounts=amounts)


def slice_at(node: str, name: str, start: int, units: int, device: int = 0) -> Place:
    """A slice of a device of a node, with what one replica there is charged (R4)."""
    share = DeviceShare(device=f"gpu{device}", units=units, mig=name, start=start)
    return Place(node=node, devices=(share,), amounts={GPU: units, JOB: 1})


def applied(document: d.Document) -> AnyFact:
    """The fact that puts a document in force."""
    match document:
        case d.Tenant():
            return f.TenantAppliedV1(author="a.b", tenant=document)
        case d.Pool():
            return f.PoolAppliedV1(author="a.b", pool=document)
        case d.Profile():
            return f.ProfileAppliedV1(author="a.b", profile=document)
        case d.Policy():
            return f.PolicyAppliedV1(author="a.b", policy=document)
        case d.Group():
            return f.GroupAppliedV1(author="a.b", group=document)
    raise AssertionError(document)


class Site:
    """A state, the time, and the means to say what happens next."""

    def __init__(self, *policies: d.Policy, pools: tuple[d.Pool, ...] = (), tenants: tuple[d.Tenant, ...] = ()) -> None:
        self.state = State(terms=TimeRules(level=LEVEL))
        self.now = START
        self.law(*(pools or (pool(),)), *tenants, *PROFILES, *(policies or (policy(),)))

    def append_facts(self, *facts: AnyFact, by: str = "governance") -> int:
        """One record; its sequence."""
        sequence = self.state.sequence + 1
        apply(self.state, Record(by=by, now=self.now, engine="test", as_of=sequence - 1, facts=facts), sequence)
        return sequence

    def law(self, *documents: d.Document) -> None:
        """Documents in force, by one record."""
        self.append_facts(*map(applied, documents))

    def node(
        self,
        name: str = "n1",
        count: int = 2,
        *,
        cpu: int = 16,
        memory: int = 64,
        model: str = "H100",
        pool: str = "hall",
        mig: bool = False,
        **labels: str,
    ) -> None:
        """A node registers; cpus and GiB."""
        devices = tuple(Device(device=f"gpu{number}", model=model, memory=80 * GIB, mig=mig) for number in range(count))
        resources = {"cpu": cpu * CPU_UNITS, "memory": memory * GIB, "at": self.now}
        self.append_facts(
            f.NodeRegisteredV1(node=name, labels={"pool": pool, **labels}, devices=devices, **resources), by=f"node.{name}"
        )

    def admit(
        self, name: str, queue: str = "dev/one", *, tenant: str = "default", user: str = "ann", **fields: object
    ) -> JobRecord:
        """The job `<tenant>.<user>.<name>` is admitted, with the request of its profile."""
        policy_name, profile_name = queue.split("/")
        known = self.state.profile(tenant, profile_name)
        asked = {"request": dict(known.request), "replicas": known.replicas, **fields}
        key = f"{tenant}.{user}.{name}"
        self.append_facts(f.JobAdmittedV1(job=key, policy=policy_name, profile=profile_name, **asked), by="admission")
        return self.state.jobs[key]

    def grant(self, job: JobRecord, *places: Place, pool: str = "hall") -> None:
        """The next attempt of a job holds these places, one for each rank."""
        attempt = job.attempt + 1
        self.append_facts(
            *(
                f.LeaseGrantedV1(
                    job=job.key, attempt=attempt, rank=rank, node=at.node, pool=pool, devices=at.devices, amounts=at.amounts
                )
                for rank, at in enumerate(places)
            ),
            by="allocator",
        )

    def start(self, job: JobRecord) -> None:
        """All replicas run."""
        for rank, lease in sorted(job.leases.items()):
            self.append_facts(
                f.LeaseStartedV1(job=job.key, attempt=job.attempt, rank=rank, at=self.now), by=f"node.{lease.node}"
            )

    def run(self, name: str, *places: Place, queue: str = "dev/one", pool: str = "hall", **fields: object) -> JobRecord:
        """A job is admitted, granted and started."""
        job = self.admit(name, queue, **fields)
        self.grant(job, *places, pool=pool)
        self.start(job)
        assert job.state == "running"
        return job

    def stop(self, job: JobRecord, cause: str = "preempted", *, callback: int = 60 * SECOND, term: int = 30 * SECOND) -> None:
        """The job is told to stop."""
        ladder = Ladder(cause=cause, callback_grace=callback, term_grace=term)
        self.append_facts(f.StopOrderedV1(job=job.key, attempt=job.attempt, ladder=ladder), by="allocator")

    def leave(self, job: JobRecord, requeue: str = "") -> None:
        """All replicas are gone; with `requeue`, the cause, the job waits again."""
        for rank, lease in sorted(job.leases.items()):
            ending = {"outcome": "exited", "exit_code": 0, "exited_at": self.now, "at": self.now}
            self.append_facts(f.LeaseEndedV1(job=job.key, attempt=job.attempt, rank=rank, **ending), by=f"node.{lease.node}")
        if requeue:
            self.append_facts(f.JobRequeuedV1(job=job.key, attempt=job.attempt, cause=requeue), by="allocator")

    def order(self, preemptor: JobRecord, victims: tuple[JobRecord, ...], *places: Place, pool: str = "hall") -> str:
        """A preemption becomes law: the places are nominated, the victims yield. Its id."""
        opened = self.append_facts(f.ReclaimOpenedV1(job=preemptor.key, pool=pool, cause="reclaim"), by="allocator")
        preemption = f"{preemptor.key}@{opened}"
        taken = tuple(Victim(job=one.key, attempt=one.attempt, policy=one.policy.document.name, lost=0) for one in victims)
        terms = {"job": preemptor.key, "pool": pool, "cause": "reclaim", "rule": "R25"}
        self.append_facts(
            f.PreemptionOrderedV1(preemption=preemption, victims=taken, places=places, **terms),
            by="allocator",
        )
        return preemption
