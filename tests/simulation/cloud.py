"""A cloud in the simulation.

Machines that the provisioner orders come late, never, or with other hardware, or end by themselves; spot instances are taken back after a
notice; answers are lost, credentials expire, lists are empty or lag; and the provisioner dies in the middle of a call.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

from headrace.contracts.facts import InstanceInterruptedV1
from headrace.contracts.values.durations import SECOND
from headrace.provisioner.providers import Created, Listed, NotAuthorized, NotYet, ProviderAway, Refusal
from headrace.provisioner.service import Providers
from headrace.simulate.scenario import Nodes

if TYPE_CHECKING:
    from headrace.provisioner.providers import Order
    from tests.simulation.world import World

TAG = "simulated"


class SimulatedCloud:
    """The provider `local` of one run. `made`: every instance, by name, with its token; `there`: those that run."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._chance = Random(f"cloud/{seed}")
        self.made: dict[str, str] = {}
        self.made_at: dict[str, int] = {}
        self.there: set[str] = set()
        self.ended_at: dict[str, int] = {}
        self._shown_from: dict[str, float] = {}

    @property
    def providers(self) -> Providers:
        return Providers(TAG, {"local": self}, {})

    @property
    def _faulty(self) -> bool:
        """Until the story is mended, things go wrong."""
        return self._world.loop.time() < self._world.plan.until / 1_000_000

    def _fails(self, part: float) -> bool:
        return self._faulty and self._chance.random() < part

    async def _pass(self) -> None:
        await asyncio.sleep(self._chance.random() * (2.0 if self._faulty else 0.1))
        if self._fails(0.1):
            raise ProviderAway("no route to the cloud")
        if self._fails(0.03):
            raise NotAuthorized("the credentials have expired")

    def _kill(self) -> None:
        """The provisioner dies here, and is started again."""
        process = self._world.alive("provisioner")
        if process is not None and self._fails(0.2):
            self._world.counts["cloud: killed in a call"] += 1
            self._world.kill(process)
            self._world.loop.call_later(0.2, self._world.launch, process.name, context=self._world.outside)

    async def create(self, order: Order) -> Created | Refusal:
        await self._pass()
        self._kill()
        if order.instance not in self.made:
            if self._fails(0.15):
                return Refusal("CAPACITY", "sold out")
            self._make(order)
        elif self.made[order.instance] != order.token:
            self._world.watch.wrong(f"{order.instance} is ordered by two tokens")
        self._kill()
        await asyncio.sleep(0)
        if self._fails(0.15):
            raise ProviderAway("the answer was lost")
        return Created(f"sim/{order.instance}", self.made_at[order.instance])

    def _make(self, order: Order) -> None:
        world = self._world
        if order.instance not in world.watch.state.instances:
            world.watch.wrong(f"{order.instance} is made without an order in the ledger")
        self.made[order.instance], self.made_at[order.instance] = order.token, world.network.clock()
        self.there.add(order.instance)
        world.counts["cloud: made"] += 1
        self._shown_from[order.instance] = world.loop.time() + (self._chance.random() * 30.0 if self._fails(0.3) else 0.0)
        pool = world.watch.state.pools[order.pool].document
        labels = dict(pool.selector)
        gpus = order.node.gpus - (1 if self._fails(0.1) else 0)
        row = Nodes(name=order.instance, labels=labels, gpus=gpus, gpu_model=order.node.gpu_model, cpus=64)
        if not self._fails(0.1):  # else it never joins
            late = self._chance.random() * (20.0 if self._faulty else 2.0)
            world.loop.call_later(late, self._boot, order.instance, row, context=world.outside)
        if self._fails(0.1):
            world.loop.call_later(self._chance.random() * 90.0, self._gone, order.instance, "died", context=world.outside)
        if order.offer.market == "spot" and self._fails(0.3):
            world.loop.call_later(20.0 + self._chance.random() * 60.0, self._take_back, order.instance, context=world.outside)

    def _boot(self, name: str, row: Nodes) -> None:
        if name in self.there and not self._world.over:
            self._world.add_machine(name, row)
            self._world.launch(name)

    def _take_back(self, name: str) -> None:
        """A notice, which the executor sees if it runs; in two minutes the machine is gone."""
        world, machine = self._world, self._world.machines.get(name)
        if name not in self.there or world.over:
            return
        world.counts["cloud: notices"] += 1
        world.loop.call_later(120.0, self._gone, name, "taken back", context=world.outside)
        process = world.alive(name)
        if process is not None and machine is not None and machine.executor is not None:
            now = world.network.clock()
            fact = InstanceInterruptedV1(node=name, kind="spot", deadline=now + 120 * SECOND, at=now)
            world.loop.call_soon(machine.executor.state, fact, context=process.context)

    def _gone(self, name: str, how: str) -> None:
        """The machine is no more, with all that ran on it."""
        world = self._world
        if name not in self.there or world.over:
            return
        world.counts[f"cloud: {how}"] += 1
        self._remove(name)

    def _remove(self, name: str) -> None:
        self.there.discard(name)
        self.ended_at[name] = self._world.network.clock()
        process = self._world.alive(name)
        if process is not None:
            self._world.kill(process)
        self._world.machines.pop(name, None)

    async def end(self, instance: str, provider_id: str, region: str) -> int:
        await self._pass()
        self._kill()
        world = self._world
        node = world.watch.state.nodes.get(instance)
        if node is not None and node.leases and node.healthy:
            world.watch.wrong(f"{instance} is ended under a lease")
        if instance in self.there and self._shown_from.get(instance, 0.0) > world.loop.time():
            if provider_id:
                raise NotYet("it is not shown")
            return world.network.clock()
        if instance in self.there:
            world.counts["cloud: ended"] += 1
            self._remove(instance)
        if self._fails(0.15):
            raise ProviderAway("the answer was lost")
        return self.ended_at.get(instance, world.network.clock())

    async def list(self, regions: object) -> list[Listed]:
        await self._pass()
        if self._fails(0.1):
            return []
        now, gone = self._world.loop.time(), self.ended_at
        shown = [name for name in sorted(self.made) if self._shown_from.get(name, 0.0) <= now]
        return [
            Listed(name, f"sim/{name}", self.made_at[name], name in self.there, ended_at=gone.get(name, 0)) for name in shown
        ]

    async def prices(self, offers: object) -> dict[str, int]:
        return {}

    async def check(self, offers: object) -> dict[str, str]:
        return {}

    @property
    def is_known(self) -> bool:
        """Whether the ledger says of every instance whether it is there: that is known with the next list at the latest."""
        state = self._world.watch.state
        return {one.name for one in state.instances.values() if one.lives} == self.there

    def at_rest(self) -> None:
        """Nothing costs money that the ledger does not know of."""
        state = self._world.watch.state
        serving = {one.name for one in state.instances.values() if one.lives}
        for name in sorted(self.there - serving):
            self._world.watch.wrong(f"{name} runs, and the ledger says that it does not")
        for name in sorted(serving - self.there):
            self._world.watch.wrong(f"{name} lives in the ledger, and does not run")
        for one in state.instances.values():
            # the cloud's clock may be behind the log's time, in which nothing begins before its order
            billed = max(one.ordered_at, self.made_at.get(one.name, 0)), self.ended_at.get(one.name, 0)
            if one.created_at and (one.created_at, one.ended_at) != billed:
                self._world.watch.wrong(
                    f"{one.name} is in the books for {(one.created_at, one.ended_at)}, the cloud bills {billed}"
                )
            elif not one.created_at and one.name in self.made:
                self._world.watch.wrong(f"{one.name} is not in the books, the cloud bills {billed}")
