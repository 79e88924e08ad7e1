"""A history told fact by fact, for tests of the deciders: a hall of GPUs, a few policies, and what happens to their jobs."""

from __future__ import annotations

from headrace.allocator.decide import Allocator
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.fact import DeviceShare, Ladder, Place
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.records import Record
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS, JOB
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import make_job_id
from headrace.domain.fold.apply import apply
from headrace.domain.model.jobs import JobRecord
from headrace.domain.model.time_rules import TimeRules
from headrace.domain.state.state import State
from headrace.simulate.virtual_system import as_law

START = 1_767_225_600 * SECOND
HALL = d.Pool(name="hall", selector={"site": "hall"})
LADDER = {"callback_grace": 60 * SECOND, "term_grace": 30 * SECOND}


def gpus(count: int) -> dict[str, int]:
    """This number of whole GPUs."""
    return {GPU: count * GPU_UNITS}


def profile(name: str, count: int = 1, **more: object) -> d.Profile:
    """A profile of whole GPUs, in the hall unless `pools` says where."""
    return d.Profile(**{"name": name, "request": gpus(count), "pools": ("hall",), **more})


PROFILES = (
    profile("one"),
    profile("two", 2),
    profile("three", 3),
    profile("half", request={GPU: GPU_UNITS // 2}),
    profile("gang", replicas=2),
    profile("cpu", request={CPU: CPU_UNITS}),
)


def policy(name: str, reserved: int | None = None, *, unborrowed: tuple[str, ...] = (), **more: object) -> d.Policy:
    """A policy with all profiles, and a policy-wide reservation of whole GPUs."""
    links = tuple(d.PolicyProfile(name=link.name, borrow=link.name not in unborrowed) for link in PROFILES)
    return d.Policy(**{"name": name, "profiles": links, "reservation": None if reserved is None else gpus(reserved), **more})


def terms(**fields: object) -> d.PreemptionTerms:
    return d.PreemptionTerms(**fields)


def place(node: str, *devices: int, job: bool = True, units: int = GPU_UNITS) -> Place:
    """Devices of a node by number, with what a replica of that size is charged."""
    shares = tuple(DeviceShare(device=f"gpu{number}", units=units) for number in devices)
    amounts = {GPU: units * len(devices)} | ({JOB: 1} if job else {})
    return Place(node=node, devices=shares, amounts=amounts)


def granted(job: JobRecord, where: Place, *, attempt: int = 1, **more: object) -> f.LeaseGrantedV1:
    """The grant of a place in the hall."""
    held = {"node": where.node, "devices": where.devices, "amounts": where.amounts}
    return f.LeaseGrantedV1(**{"job": job.key, "attempt": attempt, "pool": "hall", **held, **more})


def stopped(job: JobRecord, cause: str, then: str = "requeue", **more: object) -> f.StopOrderedV1:
    """The order to stop, with the graces that a policy has when it says nothing."""
    return f.StopOrderedV1(job=job.key, attempt=job.attempt, ladder=Ladder(cause=cause, then=then, **{**LADDER, **more}))


class History:
    """A state, the time, and the means to tell what happens next."""

    def __init__(self, *policies: d.Policy, pools: tuple[d.Pool, ...] = (HALL,), **documents: object) -> None:
        self.state = State(terms=TimeRules(level=LEVEL))
        self.now = START
        self.allocator = Allocator(self.state)
        self._jobs = 0
        self.law(d.Documents(**{"pools": pools, "profiles": PROFILES, "policies": policies, **documents}))

    def append_facts(self, *facts: AnyFact, by: str = "governance", as_of: int | None = None) -> None:
        """One record, decided on all that there is or on what there was at `as_of`."""
        sequence = self.state.sequence + 1
        read = sequence - 1 if as_of is None else as_of
        apply(self.state, Record(by=by, now=self.now, engine="test", as_of=read, facts=facts), sequence)

    def law(self, documents: d.Documents) -> None:
        """Documents in force, without a look at them."""
        self.append_facts(*as_law(documents))

    def wait(self, span: int) -> None:
        """Time passes."""
        self.now += span

    def node(self, name: str = "n1", count: int = 4, *, cpu: int = 64, model: str = "H100", **labels: str) -> None:
        """A node of whole GPUs registers, in the hall unless its labels say otherwise."""
        devices = tuple(Device(device=f"gpu{number}", model=model, memory=81_920) for number in range(count))
        labels = labels or {"site": "hall"}
        resources = {"cpu": cpu * CPU_UNITS, "memory": 1_048_576, "at": self.now}
        self.append_facts(f.NodeRegisteredV1(node=name, labels=labels, devices=devices, **resources), by=f"node.{name}")

    def admit(
        self, queue: str, *, user: str = "ann", tenant: str = "default", as_of: int | None = None, **fields: object
    ) -> JobRecord:
        """A job is admitted and waits."""
        policy_name, profile_name = queue.split("/")
        known = self.state.profile(tenant, profile_name)
        self._jobs += 1
        key = f"{tenant}.{user}.{make_job_id(self.now // 1_000, self._jobs.to_bytes(10, 'big'))}"
        asked = {"request": dict(known.request), "replicas": known.replicas, **fields}
        self.append_facts(
            f.JobAdmittedV1(job=key, policy=policy_name, profile=profile_name, **asked), by="admission", as_of=as_of
        )
        return self.state.jobs[key]

    def allocate(self) -> tuple[AnyFact, ...]:
        """One round of the allocator becomes law."""
        self.state.pass_time(self.now)
        facts = self.allocator.decide(self.now)
        if facts:
            self.append_facts(*facts, by="allocator")
        return facts

    def learn(self) -> None:
        """What pools are asked for is stated, so that the next round is about jobs (R20)."""
        news = tuple(self.allocator.learning.news(self.state))
        if news:
            self.append_facts(*news, by="allocator")

    def start(self, job: JobRecord) -> None:
        """All replicas run."""
        for rank, lease in sorted(job.leases.items()):
            self.append_facts(
                f.LeaseStartedV1(job=job.key, attempt=job.attempt, rank=rank, at=self.now), by=f"node.{lease.node}"
            )

    def run(self, queue: str, **fields: object) -> JobRecord:
        """A job is admitted, granted and started."""
        job = self.admit(queue, **fields)
        self.allocate()
        self.start(job)
        assert job.state == "running"
        return job

    def stop(self, job: JobRecord, cause: str, then: str = "requeue") -> None:
        """The job is told to stop."""
        self.append_facts(stopped(job, cause, then), by="allocator")

    def cancel(self, job: JobRecord) -> None:
        """Its owner wants it to end."""
        self.append_facts(f.JobCancelRequestedV1(job=job.key, by="default.ann"), by="admission")

    def requeue(self, job: JobRecord) -> None:
        """Its owner wants it back in line."""
        self.append_facts(f.JobRequeueRequestedV1(job=job.key, attempt=job.attempt, by="default.ann"), by="admission")

    def end(
        self, job: JobRecord, exit_code: int | None = 0, *, rank: int = 0, outcome: str = "exited", **fields: object
    ) -> None:
        """One replica is gone; `stopping` as the node would say."""
        ending = {"stopping": job.state == "stopping", "exited_at": self.now, "at": self.now, **fields}
        node = job.leases[rank].node
        ended = f.LeaseEndedV1(job=job.key, attempt=job.attempt, rank=rank, outcome=outcome, exit_code=exit_code, **ending)
        self.append_facts(ended, by=f"node.{node}")
