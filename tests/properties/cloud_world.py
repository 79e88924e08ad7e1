"""A pool over a cloud with faults, in virtual time: the real allocator and provisioner, and a provider that breaks every habit.

It loses answers, refuses, is late, shows empty lists, and makes instances that never join, die, or have other hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.nodes import Device
from headrace.contracts.values.amounts import CPU_UNITS
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.domain.model.jobs import JobRecord
from headrace.domain.placement.offers import closed_for, living
from headrace.provisioner.decide import Call, Provisioner
from headrace.provisioner.providers import Listed
from headrace.provisioner.reconcile import compare
from tests.unit.allocator.history import HALL, START, History, gpus, policy, profile

TICK = 15 * SECOND
BUSY, QUIET = HOUR, 12 * HOUR
"""For so long users submit and faults happen; then for so long nothing new does."""
GPUS, MOST = 2, 4
BURST = d.Burst(
    provider="local",
    node=d.BurstNode(gpus=GPUS, gpu_model="H100"),
    offers=(d.Offer(name="spot", price="1", market="spot"), d.Offer(name="plain", price="2")),
    max_nodes=MOST,
    boot=2 * MINUTE,
    idle=5 * MINUTE,
    max_life=3 * HOUR,
)
PROFILES = (profile("one", 1, pools=("hall", "cloud")), profile("two", 2, pools=("cloud",)))
LINKS = tuple(d.PolicyProfile(name=known.name) for known in PROFILES)


class Away(Exception):
    """The provider does not answer."""


@dataclass(slots=True)
class Machine:
    """An instance as the provider has it. `joins_at`, `dies_at`: 0: never. `price`: of an hour; `ended_at`: 0: it runs."""

    name: str
    made_at: int
    joins_at: int
    dies_at: int
    model: str
    price: int = 0
    ended_at: int = 0
    runs: bool = True
    joined: bool = False
    lost: bool = False


class CloudWorld:
    """One history. `violations`: promises that were broken, one line each.

    `cap`: of the pool. `caps`: of the tenants' shares in it, by tenant; tenant `default` has policy `ml`, others one of their own.
    `orderly`: no instance is made long after it was asked for, which no cap knows of.
    """

    def __init__(
        self, seed: int, min_nodes: int = 0, *, cap: str = "", caps: dict[str, str] | None = None, orderly: bool = False
    ) -> None:
        self.chance = Random(seed)
        self.orderly = orderly
        burst = d.Burst(**{**_fields(BURST), "min_nodes": min_nodes, "cap": cap})
        cloud = d.Pool(name="cloud", selector={"site": "cloud"}, burst=burst)
        self.caps = caps or {}
        others = [name for name in self.caps if name != "default"]
        self.queues = [("default", "ml"), *((name, f"ml-{name}") for name in others)]
        tenants = tuple(
            d.Tenant(name=name, shares=(d.Share(pool="cloud", cap=most), d.Share(pool="hall")))
            for name, most in self.caps.items()
        )
        policies = [policy(name, tenant=tenant, profiles=LINKS, reservation=gpus(8)) for tenant, name in self.queues]
        self.history = History(*policies, pools=(HALL, cloud), profiles=PROFILES, tenants=tenants)
        self.history.node("h1", 1)
        self.machines: dict[str, Machine] = {}
        self.late: list[tuple[int, str]] = []
        self.ends: dict[str, int] = {}
        self.leaving: dict[str, int] = {}
        self.violations: list[str] = []
        self.absent: dict[str, int] = {}
        self.stated: list[tuple[int, f.AnyFact]] = []
        self._start()

    @property
    def state(self):
        return self.history.state

    @property
    def now(self) -> int:
        return self.history.now

    @property
    def faulty(self) -> bool:
        return self.now < START + BUSY

    def _start(self) -> None:
        """The provisioner begins anew, with nothing but the ledger."""
        self.provisioner, self.absent = Provisioner(self.state), {}

    def play(self) -> None:
        """Play the busy hour, and the quiet time after it."""
        while self.now < START + BUSY + QUIET:
            if self.faulty and self.chance.random() < 0.15:
                tenant, name = self.queues[0] if len(self.queues) == 1 else self.chance.choice(self.queues)
                kind = self.chance.choice(("one", "two"))
                self.history.admit(f"{name}/{kind}", tenant=tenant, preemptible=self.chance.random() < 0.7)
            if self.faulty and self.chance.random() < 0.1:
                self._start()
            self._machines_go_on()
            self._jobs_go_on()
            self._decide()
            self._act()
            if self.chance.random() < TICK / MINUTE:
                self._reconcile()
            self._look()
            self.history.wait(self._pause())

    def _pause(self) -> int:
        """Until the next round: of a pool with a cap until the provisioner has to look at it, if that is sooner."""
        burst, due = self.state.pools["cloud"].document.burst, self.provisioner.next_wakeup()
        return min(TICK, max(SECOND, due - self.now)) if burst is not None and burst.cap and due is not None else TICK

    def _say(self, *facts: f.AnyFact, by: str) -> None:
        self.history.append_facts(*facts, by=by)
        self.stated += [(self.now, fact) for fact in facts]

    def _decide(self) -> None:
        self.state.pass_time(self.now)
        for _ in range(50):
            granted = self.history.allocator.decide(self.now)
            if granted:
                self._say(*granted, by="allocator")
                self._start_jobs()
            facts = self.provisioner.decide(self.now)
            if facts:
                self._say(*facts, by="provisioner")
            if not granted and not facts:
                return
        self.violations.append(f"the services do not come to rest at {self.now - START}")

    def _act(self) -> None:
        for call in self.provisioner.calls:
            fate = self.chance.random() if self.faulty else 1.0
            if fate < 0.1:
                continue  # the provider is away
            if fate < 0.15 and call.what == "create" and not self.orderly:
                self.late.append((self.now + self.chance.randint(1, 20) * MINUTE, call.instance))
                continue  # the call arrives when its caller has given up
            answer = self._perform(call)
            if fate >= 0.3:  # else the answer is lost
                self.provisioner.add_facts(answer)

    def _perform(self, call: Call) -> f.AnyFact:
        instance = self.state.instances[call.instance]
        if call.what == "end":
            self._end(call.instance)
            cause = instance.released if instance.created_at else "never_made"
            return f.InstanceEndedV1(instance=call.instance, provider_id=instance.provider_id, cause=cause, at=self.now)
        known = self.machines.get(call.instance)
        if known is None and self.faulty and self.chance.random() < 0.2:
            code, offer = self.chance.choice(("CAPACITY", "QUOTA")), self.state.offers.get(("cloud", instance.offer))
            return f.InstanceRefusedV1(instance=call.instance, code=code, closed_until=self.now + closed_for(offer))
        made = self._make(call.instance)
        return f.InstanceCreatedV1(instance=call.instance, provider_id=f"p/{made.name}", at=made.made_at)

    def _make(self, name: str) -> Machine:
        """The one machine of this order."""
        if name not in self.state.instances:
            self.violations.append(f"{name} was made without an order in the ledger")
        known = self.machines.get(name)
        if known is None:
            fate = self.chance.random() if self.faulty else 1.0
            boots = self.chance.randint(20, 300) if self.faulty else 60
            known = self.machines[name] = Machine(
                name,
                self.now,
                0 if fate < 0.1 else self.now + boots * SECOND,
                self.now + self.chance.randint(1, 40) * MINUTE if 0.1 <= fate < 0.25 else 0,
                "A100" if 0.25 <= fate < 0.3 else "H100",
                self.state.instances[name].price if name in self.state.instances else 0,
            )
        return known

    def _end(self, name: str) -> None:
        node = self.state.nodes.get(name)
        if node is not None and node.leases and node.healthy:
            self.violations.append(f"{name} was ended under a lease")
        machine = self.machines.get(name)
        if machine is not None and machine.runs:
            machine.runs, machine.ended_at = False, self.now

    def _machines_go_on(self) -> None:
        for due, name in [one for one in self.late if one[0] <= self.now]:
            self.late.remove((due, name))
            if self.machines.get(name) is None:
                self._make(name)
        for one in self.machines.values():
            if one.runs and one.dies_at and one.dies_at <= self.now:
                one.runs, one.ended_at = False, one.dies_at
            may = (instance := self.state.instances.get(one.name)) is not None and instance.lives  # else its login is revoked
            if may and one.runs and one.joins_at and one.joins_at <= self.now and not one.joined:
                one.joined = True
                devices = tuple(Device(device=f"gpu{number}", model=one.model, memory=81_920) for number in range(GPUS))
                resources = {"cpu": 64 * CPU_UNITS, "memory": 1 << 20, "at": self.now, "labels": {"site": "cloud"}}
                self._say(f.NodeRegisteredV1(node=one.name, devices=devices, **resources), by=f"node.{one.name}")
            node = self.state.nodes.get(one.name)
            if node is not None and not one.runs and node.healthy:
                self._say(f.NodeLostV1(node=one.name, silent_for=MINUTE), by="preemption")

    def _start_jobs(self) -> None:
        for job in [job for job in self.state.jobs.values() if job.state == "starting"]:
            if all(self._is_there(lease.node) for lease in job.leases.values()):
                self.history.start(job)
                self.ends[job.key] = self.now + self.chance.randint(1, 20) * MINUTE

    def _is_there(self, node: str) -> bool:
        machine = self.machines.get(node)
        return node == "h1" or (machine is not None and machine.runs)

    def _jobs_go_on(self) -> None:
        for job in list(self.state.jobs.values()):
            if not job.leases or not all(self._is_there(lease.node) for lease in job.leases.values()):
                continue
            if (
                self._leaves(job)
                if job.state == "stopping"
                else job.state == "running" and self.ends.get(job.key, 0) <= self.now
            ):
                self.history.end(job)

    def _leaves(self, job: JobRecord) -> bool:
        """Whether a job that was told to stop has left: half of the jobs take all the time that they have."""
        if job.stop is None or job.key not in self.leaving:
            ladder = job.stop.callback_grace + job.stop.term_grace if job.stop is not None else 0
            self.leaving[job.key] = job.stop_at + self.chance.choice((0, ladder))
        if self.leaving[job.key] > self.now:
            return False
        del self.leaving[job.key]
        return True

    def _reconcile(self) -> None:
        fate = self.chance.random() if self.faulty else 1.0
        if fate < 0.1:
            return  # the list fails
        hidden = 2 * MINUTE if self.faulty else 0  # what is new may not be shown yet
        shown = [
            Listed(one.name, f"p/{one.name}", one.made_at, one.runs)
            for one in self.machines.values()
            if self.now - one.made_at >= self.chance.randint(0, hidden)
        ]
        found = compare(self.state, "local", [] if fate < 0.2 else shown, self.absent, self.now)
        self.absent = found.absent
        self.provisioner.add_facts(*found.facts)
        for orphan in found.orphans:
            self._end(orphan.instance)
            self.provisioner.add_facts(
                f.InstanceOrphanEndedV1(provider="local", provider_id=orphan.provider_id, instance=orphan.instance)
            )

    def _look(self) -> None:
        there = living(self.state.instances.values(), self.state.pools["cloud"])
        if len(there) > MOST:
            self.violations.append(f"{len(there)} instances live, at most {MOST} may")
        for one in self.state.instances.values():
            node = self.state.nodes.get(one.name)
            if one.market == "spot" and node is not None and not all(lease.job.preemptible for lease in node.leases.values()):
                self.violations.append(f"{one.name} is a spot instance, and runs a job that is not preemptible")

    @property
    def billed(self) -> int:
        """What the machines have cost until now, in millionths."""
        return sum(one.price * ((one.ended_at or self.now) - one.made_at) // HOUR for one in self.machines.values())

    @property
    def running(self) -> set[str]:
        """Machines that cost money."""
        return {one.name for one in self.machines.values() if one.runs}


def _fields(burst: d.Burst) -> dict[str, object]:
    return {name: getattr(burst, name) for name in burst.__struct_fields__}
