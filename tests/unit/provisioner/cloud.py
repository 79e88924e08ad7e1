"""A pool that creates its nodes, and the means to say what becomes of its instances."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.provisioning import OfferTaken
from headrace.contracts.values.amounts import CPU_UNITS
from headrace.contracts.values.durations import MINUTE
from headrace.provisioner.decide import Provisioner
from tests.unit.domain.site import Site, pool, profile

BOOT, IDLE = 2 * MINUTE, 10 * MINUTE
NODE = d.BurstNode(gpus=2, gpu_model="H100")
OFFERS = (d.Offer(name="dear", price="4"), d.Offer(name="cheap", price="2.50"), d.Offer(name="spot", price="1", market="spot"))


def burst(**fields: object) -> d.Burst:
    return d.Burst(**{"provider": "local", "node": NODE, "max_nodes": 3, "boot": BOOT, "idle": IDLE, **fields})


def cloud(**fields: object) -> d.Pool:
    return d.Pool(name="cloud", selector={"pool": "cloud"}, burst=burst(**fields))


class Cloud(Site):
    """A site with the hall and a cloud pool, and its provisioner."""

    def __init__(self, **fields: object) -> None:
        super().__init__(pools=(pool(), cloud(**fields)))
        self.law(profile("one", pools=("hall", "cloud")))
        self.provisioner = Provisioner(self.state)

    @property
    def pool(self):
        return self.state.pools["cloud"]

    def wait(self, span: int) -> None:
        self.now += span

    def grow(self, nodes: int = 1) -> int:
        """The pool is asked for nodes; the sequence of the request."""
        return self.append_facts(f.GrowthRequestedV1(pool="cloud", nodes=nodes), by="allocator")

    def decide(self) -> tuple[f.AnyFact, ...]:
        """One round of the provisioner becomes law."""
        facts = self.provisioner.decide(self.now)
        if facts:
            self.append_facts(*facts, by="provisioner")
        return facts

    def ordered(self, nodes: int = 1) -> list[str]:
        """The pool is asked for nodes, and they are ordered; their names."""
        self.grow(nodes)
        return [fact.instance for fact in self.decide()]

    def made(self, *names: str) -> None:
        """The provider has made them."""
        self.append_facts(
            *(f.InstanceCreatedV1(instance=one, provider_id=f"p/{one}", at=self.now) for one in names), by="provisioner"
        )

    def refused(self, name: str, code: str = "CAPACITY", for_: int = MINUTE) -> None:
        self.append_facts(f.InstanceRefusedV1(instance=name, code=code, closed_until=self.now + for_), by="provisioner")

    def join(self, name: str, gpus: int = 2, model: str = "H100") -> None:
        """Its node registers."""
        devices = tuple(Device(device=f"gpu{number}", model=model, memory=80 * 1024) for number in range(gpus))
        resources = {"cpu": 16 * CPU_UNITS, "memory": 1 << 20, "at": self.now}
        self.append_facts(
            f.NodeRegisteredV1(node=name, labels={"pool": "cloud"}, devices=devices, **resources), by=f"node.{name}"
        )

    def joined(self, nodes: int = 1) -> list[str]:
        """Nodes that the pool has created, and whose growth is over."""
        names = self.ordered(nodes)
        self.made(*names)
        for name in names:
            self.join(name)
        self.end_growth(nodes)
        return names

    def end_growth(self, nodes: int = 0) -> None:
        """The pool is asked for no more nodes."""
        self.append_facts(f.GrowthEndedV1(pool="cloud", outcome="grown", nodes=nodes), by="allocator")


def order_of(name: str, **fields: object) -> f.InstanceOrderedV1:
    order = {"pool": "cloud", "provider": "local", "offer": OfferTaken(name="default"), "token": name, "expires": 1, **fields}
    return f.InstanceOrderedV1(instance=name, **order)
