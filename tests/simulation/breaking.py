"""What goes wrong, blow by blow, and how all of it is mended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.contracts.facts.records import Record
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import ledger, node_writer
from headrace.node_executor.core import vocabulary as v
from tests.simulation.clockwork import OUTSIDE, Process
from tests.simulation.plan import Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.world import World

LOST_IN = 0.1
"""How often a message is lost, or comes twice, on a bad wire."""
VOID_LIES = 5
"""Which lies are void: those up to this number."""
ELECTS, RISES = 3.0, 6.0
"""Seconds until servers that have come up have a leader, and until all others have come up, at most."""
FAR, SETTLES = 0.5, 8.0
"""How often nodes come last then, and are far from the servers, and for how many seconds."""
SLOWER = 40
"""How many times slower a wire or a node is that is slow."""


class Breaking:
    """The hand that breaks things."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._after: dict[str, float] = {}

    def strike(self, fault: Fault) -> None:
        """It happens now."""
        blow: Callable[[Fault], None] | None = getattr(self, "_" + fault.kind, None)
        if blow is None:
            raise ValueError(f"there is no fault {fault.kind!r}")
        if self.world.home(fault.target) not in ("nats", *self.world.machines, *self.world.processes):
            return
        self.world.counts[f"fault: {fault.kind}"] += 1
        blow(fault)

    def _later(self, fault: Fault, what: Callable[..., None], *about: object) -> None:
        self.world.loop.call_later(fault.span / 1_000_000, what, *about, context=OUTSIDE.context)

    # Processes

    def _crash(self, fault: Fault) -> None:
        process = self.world.alive(fault.target)
        if process is not None:
            self.world.struck.setdefault(process.name, self.world.loop.time())
            self.world.kill(process)
        self._later(fault, self._start, fault.target)

    def _crash_soon(self, fault: Fault) -> None:
        process = self.world.alive(fault.target)
        if process is not None:
            process.crash_in = fault.amount
            self._after[process.name] = fault.span / 1_000_000

    def crashed(self, process: Process) -> None:
        """It has come to the step at which it was to die."""
        self.world.struck.setdefault(process.name, self.world.loop.time())
        self.world.kill(process)
        self.world.loop.call_later(self._after.get(process.name, 1.0), self._start, process.name, context=OUTSIDE.context)

    def _start(self, name: str) -> None:
        self.world.launch(name)

    def _stop(self, fault: Fault) -> None:
        process = self.world.alive(fault.target)
        if process is not None:
            process.stopped = True
            self._later(fault, self._go_on, process)

    def _go_on(self, process: Process) -> None:
        if process.alive:
            self.world.loop.go_on(process)

    def _second(self, fault: Fault) -> None:
        """It hangs, another one is started, and then it goes on."""
        self._stop(fault)
        self.world.launch(fault.target, beside=True)

    # Wires

    def _cut(self, fault: Fault) -> None:
        self.world.network.cut(fault.target, fault.span / 1_000_000)

    def _stall(self, fault: Fault) -> None:
        self.world.network.stall(fault.target, fault.span / 1_000_000)

    def _slow(self, fault: Fault) -> None:
        self.world.network.slow(fault.target, SLOWER)
        self._later(fault, self.world.network.slow, fault.target, 1)

    def _lossy(self, fault: Fault) -> None:
        self.world.network.lossy(fault.target, LOST_IN)
        self._later(fault, self.world.network.lossy, fault.target, 0.0)

    # The server

    def _server(self, fault: Fault) -> None:
        self.world.network.go_down()
        self._later(fault, self.world.network.come_up)

    def _election(self, fault: Fault) -> None:
        self.world.network.streams_away_until = self.world.loop.time() + fault.span / 1_000_000

    def _full(self, fault: Fault) -> None:
        self.world.network.full_until = self.world.loop.time() + fault.span / 1_000_000

    # All of it

    def _everything(self, fault: Fault) -> None:
        """The machine with everything on it dies, as when its supervisor is killed: the server, the services, and the executors with
        their jobs (or, with an amount, the executors alone). It comes up again piece by piece, while users submit.
        """
        world, loop = self.world, self.world.loop
        world.network.go_down()
        for name in world.services:
            for process in world.processes.get(name, ()):
                if process.alive:
                    world.struck.setdefault(name, loop.time())
                    world.kill(process)
        for name, machine in world.machines.items():
            process, hands = world.alive(name), machine.executor
            if hands is not None and not fault.amount:
                hands.receive(lambda _, hands=hands: hands.halt(), "")
            elif process is not None:
                world.kill(process)
        self._later(fault, self._rise)

    def _rise(self) -> None:
        world, draw = self.world, self.world.random.random
        for process in filter(None, map(world.alive, world.machines)):  # they gave up waiting for the server
            world.kill(process)
        world.network.come_up()
        world.network.streams_away_until = max(world.network.streams_away_until, world.loop.time() + ELECTS * draw())
        far = draw() < FAR
        for name in (*world.services, *world.machines):
            late = RISES if far and name in world.machines else 0.0
            world.loop.call_later(late + RISES * draw(), self._start_anew, name, far, context=OUTSIDE.context)

    def _start_anew(self, name: str, far: bool) -> None:
        world = self.world
        world.launch(name)
        if far and name in world.machines:  # a record of a node takes longer than a round of the allocator
            world.loop.call_later(SETTLES, world.network.slow, name, 1, context=OUTSIDE.context)
            for number in range(10):
                world.loop.call_later(0.05 * number, world.network.slow, name, SLOWER, context=OUTSIDE.context)

    # Machines

    def _clock(self, fault: Fault) -> None:
        name = self.world.home(fault.target)
        self._set_clock(name, self.world.ahead.get(name, 0) + fault.amount)
        self._later(fault, self._set_clock, name, 0)

    def _set_clock(self, name: str, ahead: int) -> None:
        self.world.ahead[name] = ahead
        for process in self.world.processes.get(name, ()):
            process.ahead = ahead
        if name in self.world.machines:
            self.world.machines[name].jumped = True

    def _power(self, fault: Fault) -> None:
        process = self.world.alive(fault.target)
        if process is not None:
            self.world.kill(process)
        self.world.machines[fault.target].power_off(self.world.known_to_have_started(fault.target))
        self._later(fault, self._start, fault.target)

    def _halt(self, fault: Fault) -> None:
        """The executor is told to end its jobs and go; what it leaves is taken over by the next one."""
        hands = self.world.machines[fault.target].executor
        if hands is not None:
            hands.receive(lambda _: hands.halt(), "")
            self._later(fault, self._replace, fault.target, self.world.alive(fault.target))

    def _replace(self, name: str, process: Process | None) -> None:
        if process is not None and process.alive:
            self.world.kill(process)
            self.world.launch(name)

    def _disk(self, fault: Fault) -> None:
        disk = self.world.machines[fault.target].disk
        disk.full = True
        self._later(fault, setattr, disk, "full", False)

    def _device(self, fault: Fault) -> None:
        self._report_device(fault.target, "xid")
        self._later(fault, self._report_device, fault.target, "")

    def _report_device(self, name: str, cause: str) -> None:
        machine = self.world.machines[name]
        machine.unfit = {"gpu0": "it fell off the bus"} if cause else {}
        hands = machine.executor
        if hands is not None:
            event = (cause, 79 if cause else 0, "it fell off the bus" if cause else "in order again")
            hands.receive(lambda _: hands.handle(v.DeviceChanged(hands.now(), "gpu0", *event)), "")

    def _refuse(self, fault: Fault) -> None:
        self._trouble(fault, "refuse")

    def _stuck(self, fault: Fault) -> None:
        self._trouble(fault, "stall")

    def _trouble(self, fault: Fault, trouble: str) -> None:
        machine = self.world.machines[fault.target]
        machine.trouble = trouble
        self._later(fault, setattr, machine, "trouble", "")

    def _slow_node(self, fault: Fault) -> None:
        machine = self.world.machines[fault.target]
        machine.slow = SLOWER
        self._later(fault, setattr, machine, "slow", 1.0)

    def _lie(self, fault: Fault) -> None:
        """Something that no fold may believe, on the node's own subject; or that what runs there has ended, which all have to."""
        if fault.amount > VOID_LIES:
            self._deny(fault.target)
            return
        by, now = node_writer(fault.target), self.world.network.clock()
        record = Record(by=by, now=now, engine="liar", as_of=0, facts=())
        gpu = f.nodes.Device(device="gpu0", model="H100-80GB", memory=1)
        registered = f.NodeRegisteredV1(node=fault.target, devices=(gpu, gpu), cpu=1, memory=1, at=now)
        lies = [
            b'{"by": "%d' % now,
            encode(Record(by="allocator", now=now, engine="liar", as_of=0, facts=())),
            encode(Record(by=by, now=now, engine="liar", as_of=0, facts=(f.NodeStoppedV1(node="elsewhere", at=now),))),
            encode(Record(by=by, now=now, engine="liar", as_of=0, facts=(f.NodeLostV1(node=fault.target, silent_for=0),))),
            encode(Record(by=by, now=now + 3_000_000, engine="liar", as_of=0, facts=record.facts)),
            encode(Record(by=by, now=now, engine="liar", as_of=0, facts=(registered,))),
        ]
        lie = lies[fault.amount]
        self.world.watch.lies.add(lie)
        self.world.network.write(ledger(by), lie)

    def _deny(self, name: str) -> None:
        """A good record that is not true: what is given to others then must not be started before it is really free."""
        now = self.world.network.clock()
        running = [one.order for one in self.world.machines[name].running.values() if one.code is None]
        if running:
            order = running[0]
            key = {"job": order.job, "attempt": order.attempt, "rank": order.rank}
            ended = f.LeaseEndedV1(outcome="exited", exit_code=0, finished=True, exited_at=now, at=now, **key)
            record = Record(by=node_writer(name), now=now, engine="liar", as_of=0, facts=(ended,))
            self.world.network.write(ledger(node_writer(name)), encode(record))

    # And all is well again

    def mend(self) -> None:
        """Whatever was done is undone, and all processes are there."""
        world = self.world
        world.network.mend()
        for name in [*world.processes]:
            self._set_clock(name, 0)
            for process in world.processes[name]:
                process.crash_in = 0
                if process.alive and process.stopped:
                    world.loop.go_on(process)
        for machine in world.machines.values():
            machine.trouble, machine.slow, machine.disk.full = "", 1.0, False
            if machine.unfit:
                self._report_device(machine.name, "")
        for name in world.processes:
            if name != "users":
                world.launch(name)
