"""A small world built by facts: one pool `hall`, nodes of it, policies of tenant `acme`; amounts in whole GPUs."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Policy, PolicyProfile, Pool, PreemptionTerms, Profile
from headrace.contracts.facts.fact import DeviceShare, Ladder, Place
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.preemption import Victim
from headrace.contracts.facts.records import Record
from headrace.contracts.values.amounts import GPU, GPU_UNITS, JOB
from headrace.contracts.values.durations import SECOND
from headrace.domain.fold.apply import apply
from headrace.domain.model.time_rules import TimeRules
from headrace.domain.state.state import State

START = 1_800_000_000 * SECOND


def gpus(number) -> dict[str, int]:
    return {GPU: int(number * GPU_UNITS)}


class Hall:
    """A state, and the words to change it by."""

    def __init__(self, nodes: int = 1, devices: int = 8, **pool) -> None:
        self.state = State(terms=TimeRules(level=LEVEL))
        self.now = START
        self.sequence = 0
        document = Pool(name="hall", selector={"site": "hq"}, **pool)
        self.append_facts("governance", f.PoolAppliedV1(author="a.b", pool=document))
        for number in range(1, nodes + 1):
            self.node(f"n{number}", devices)

    @property
    def pool(self):
        return self.state.pools["hall"]

    def append_facts(self, by: str, *facts) -> None:
        """Fold one record."""
        self.sequence += 1
        apply(self.state, Record(by=by, now=self.now, engine="test", as_of=self.sequence - 1, facts=facts), self.sequence)

    def later(self, seconds: int) -> None:
        """Time passes; the fold hears of it with the next record."""
        self.now += seconds * SECOND

    def node(
        self,
        name: str,
        devices: int = 8,
        labels=None,
        model: str = "H100-80GB",
        cpu: int = 64_000,
        gpu_memory: int = 81_920,
        mig: bool = False,
    ) -> None:
        self.append_facts(
            f"node.{name}",
            f.NodeRegisteredV1(
                node=name,
                labels={"site": "hq"} if labels is None else labels,
                devices=tuple(
                    Device(device=f"g{number}", model=model, memory=gpu_memory, mig=mig) for number in range(devices)
                ),
                cpu=cpu,
                memory=262_144,
                reads=LEVEL,
                at=self.now,
            ),
        )

    def policy(
        self, name: str, reservation=None, limit=None, size=1, tenant="acme", replicas=1, terms=None, borrow=True, **more
    ):
        """A policy with one profile of its own name, taking `size` GPUs."""
        profile = Profile(name=name, request=gpus(size), replicas=replicas, pools=("hall",))
        document = Policy(
            tenant=tenant,
            name=name,
            profiles=(PolicyProfile(name=name, borrow=borrow),),
            reservation=None if reservation is None else gpus(reservation),
            limit={} if limit is None else gpus(limit),
            preemption=terms or PreemptionTerms(),
            **more,
        )
        facts = (f.ProfileAppliedV1(author="a.b", profile=profile), f.PolicyAppliedV1(author="a.b", policy=document))
        self.append_facts("governance", *facts)
        return self.state.policies[tenant, name]

    def admit(self, policy: str, name: str, tenant="acme", **more):
        """A pending job of the policy's profile; its record."""
        profile = self.state.profile(tenant, policy)
        key = f"{tenant}.u.{name}"
        fact = f.JobAdmittedV1(
            job=key, policy=policy, profile=policy, request=dict(profile.request), replicas=profile.replicas, **more
        )
        self.append_facts("admission", fact)
        return self.state.jobs[key]

    def grant(self, job, *places):
        """`places`: (node, first device, GPUs) for each replica."""
        leases = [
            f.LeaseGrantedV1(
                job=job.key,
                attempt=job.attempt + 1,
                rank=rank,
                node=node,
                pool="hall",
                devices=shares(first, number),
                amounts=gpus(number) | ({JOB: 1} if rank == 0 else {}),
            )
            for rank, (node, first, number) in enumerate(places)
        ]
        self.append_facts("allocator", *leases)
        return job

    def start(self, job):
        for lease in list(job.leases.values()):
            self.append_facts(
                f"node.{lease.node}", f.LeaseStartedV1(job=job.key, attempt=job.attempt, rank=lease.rank, at=self.now)
            )
        return job

    def run(self, policy: str, name: str, *places, tenant="acme", **more):
        """Admit, grant and start at once."""
        return self.start(self.grant(self.admit(policy, name, tenant, **more), *places))

    def stop(self, job, cause="cancelled", then="cancel") -> None:
        ladder = Ladder(cause=cause, callback_grace=60 * SECOND, term_grace=30 * SECOND, then=then)
        self.append_facts("allocator", f.StopOrderedV1(job=job.key, attempt=job.attempt, ladder=ladder))

    def end(self, job, rank=0, **more) -> None:
        lease = job.leases[rank]
        ended = {"outcome": "exited", "exit_code": 0, "exited_at": self.now, "at": self.now} | more
        self.append_facts(f"node.{lease.node}", f.LeaseEndedV1(job=job.key, attempt=job.attempt, rank=rank, **ended))

    def order(self, preemptor, victims, *places) -> str:
        """A preemption ordered: the id."""
        self.append_facts("allocator", f.ReclaimOpenedV1(job=preemptor.key, pool="hall", cause="reclaim"))
        ordered = f.PreemptionOrderedV1(
            preemption=f"{preemptor.key}@{self.sequence}",
            job=preemptor.key,
            pool="hall",
            cause="reclaim",
            victims=tuple(Victim(job=job.key, attempt=job.attempt, policy="p", lost=0) for job in victims),
            places=tuple(
                Place(node=node, devices=shares(first, number), amounts=gpus(number) | ({JOB: 1} if rank == 0 else {}))
                for rank, (node, first, number) in enumerate(places)
            ),
            rule="R26",
        )
        self.append_facts("allocator", ordered)
        return ordered.preemption


def shares(first: int, number) -> tuple[DeviceShare, ...]:
    """`number` whole devices from `first` on, or that fraction of it."""
    if number < 1:
        return (DeviceShare(device=f"g{first}", units=int(number * GPU_UNITS)),)
    return tuple(DeviceShare(device=f"g{device}", units=GPU_UNITS) for device in range(first, first + number))
