"""One run: all services, nodes and users in one process and a time of its own, what goes wrong included.

Strategy: everything of the product runs as it is, loops and all, over the wires of `network`; only what a process finds around it
(clock, keys, garbage collector) is put in its place while a run lasts. First comes the trouble; then everything is mended, what runs
gets a moment, the rest is cancelled, and all has to come to its end.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

import structlog

from headrace.admission import service as admission
from headrace.allocator import service as allocator
from headrace.bus.log import LogBroken, LogError
from headrace.bus.loop import Fenced, ServiceLoop
from headrace.bus.process import Service
from headrace.contracts.facts import InstallationLevelV1
from headrace.contracts.facts.levels import LEVEL, RELEASES
from headrace.contracts.facts.records import Record
from headrace.contracts.facts.writers import GOVERNANCE
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import ledger
from headrace.contracts.values.ids import lease_id
from headrace.domain.state.state import State
from headrace.feed import service as feed
from headrace.governance import service as governance
from headrace.health.health import Health
from headrace.host.layouts import APART, LAYOUTS, process_name
from headrace.preemption import service as preemption
from headrace.provisioner import service as provisioner
from headrace.service import deciding, hosting
from headrace.service.fold import LedgerFold
from headrace.service.hosting import Part
from headrace.simulate.names import numbered
from headrace.simulate.virtual_system import as_law
from tests.properties.unchanged import Unchanged
from tests.simulation.breaking import Breaking
from tests.simulation.clockwork import OUTSIDE, Clockwork, Process, Spinning, current
from tests.simulation.cloud import SimulatedCloud
from tests.simulation.machines import Machine
from tests.simulation.network import Network, SimulatedConnection
from tests.simulation.nodes import serve
from tests.simulation.plan import Plan
from tests.simulation.users import Users
from tests.simulation.watch import Watch

GRACE = 30.0
"""Seconds in which jobs may end by themselves once all is mended."""

PATIENCE = 1_200.0
"""Seconds until everything has to be at rest after that."""

QUIET = 2.0
RESTARTED_AFTER = 0.2
REFUSES = frozenset({"refuse", "disk", "device"})
"""Faults after which a node may refuse what it should start."""
NO_TROUBLE = frozenset({"clock_ahead", "clock_behind", "clock_jumped", "void_record"})
"""Errors that a service may log: they speak of what was done to it."""


PARTS = {
    "admission": Part(admission.prepare),
    "allocator": allocator.PART,
    "preemption": preemption.PART,
    "provisioner": provisioner.PART,
    "governance": Part(governance.prepare),
    "feed": feed.PART,
}
"""The services without their intake: users publish into SUBMIT."""


class Outcome(NamedTuple):
    """What came of a run. `seconds`: of virtual time; `recoveries`: seconds from the blow to the tip again, by service."""

    seed: str
    violations: list[str]
    digest: str
    facts: int
    records: int
    seconds: float
    steps: int
    counts: Counter[str]
    recoveries: list[tuple[str, float]]


class NoLogins:
    """Machines of the cloud have the logins of their names."""

    def __init__(self, _service: Service) -> None:
        pass

    async def environment(self, _instance: object) -> dict[str, str]:
        """Something, so that it is not missing."""
        return {"HEADRACE_NATS_USER": "simulated"}


class Seals:
    """Keys that hide nothing, and find a text that is of another person."""

    def __init__(self, _directory: Path | None = None) -> None:
        pass

    def seal(self, tenant: str, text: bytes, aad: str) -> str:
        """The text, and whose it is."""
        return f"{tenant}/{aad}/{base64.b64encode(text).decode()}"

    def open(self, tenant: str, sealed: str, aad: str) -> bytes:
        """The inverse."""
        owner, job, text = sealed.split("/", 2)
        if (owner, job) != (tenant, aad):
            raise AssertionError(f"the text of {owner}/{job} is opened for {tenant}/{aad}")
        return base64.b64decode(text)

    def is_missing(self, _person: str) -> bool:
        """None ever is."""
        return False

    def destroy(self, _tenant: str) -> None:
        """Nothing to destroy."""


class World:
    """See above. `layout`: which services share a process (`headrace.host.layouts`). `hashes`: the whole state of a service is compared
    before and after each of its decisions, which takes long.
    """

    def __init__(self, plan: Plan, layout: str = APART, *, hashes: bool = False) -> None:
        self.plan = plan
        self.hashes = hashes
        self.services = {process_name(services): services for services in LAYOUTS[layout]}
        self._homes = {service: name for name, services in self.services.items() for service in services}
        self.random = Random(f"world/{plan.seed}")
        self.loop = Clockwork(Random(f"order/{plan.seed}"))
        self.watch = Watch()
        self.network = Network(self.loop, plan.seed, self.watch.stored, plan.latency / 1_000_000)
        self.counts: Counter[str] = self.network.counts
        self.machines: dict[str, Machine] = {}
        self.saved: dict[str, int] = {}
        self.processes: dict[str, list[Process]] = {}
        self._folds: dict[Process, LedgerFold] = {}
        self.ahead: dict[str, int] = {}
        self.struck: dict[str, float] = {}
        self.recoveries: list[tuple[str, float]] = []
        self.over = False
        self.users = Users(self)
        self.cloud = SimulatedCloud(self, plan.seed)
        self.breaking = Breaking(self)

    def run(self) -> Outcome:
        """Play it."""
        gc.disable()
        try:
            with self._installed(), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of what was killed before it began
                self.loop.run_until_complete(self.loop.create_task(self._play(), context=OUTSIDE.context))
        except Spinning as error:
            self.watch.wrong(str(error))
        finally:
            self.loop.close()
            gc.enable()
        watch = self.watch
        for error in self.loop.errors:
            watch.wrong(f"the loop complains: {error}")
        return Outcome(
            self.plan.seed,
            watch.violations,
            watch.digest.hexdigest(),
            watch.facts,
            watch.records,
            self.loop.time(),
            self.loop.steps,
            self.counts,
            self.recoveries,
        )

    async def _play(self) -> None:
        """The story, to its end or to the first promise broken. What is seen in tidying up does not count: there the killed go on."""
        enough = asyncio.Event()
        self.watch.on_violation = enough.set
        story, stop = asyncio.ensure_future(self._story()), asyncio.ensure_future(enough.wait())
        await asyncio.wait([story, stop], return_when=asyncio.FIRST_COMPLETED)
        violations = list(self.watch.violations)
        complaints = [error for error in self.loop.errors if "was never retrieved" not in error]
        await self._tidy()
        self.watch.violations, self.loop.errors = violations, complaints
        if story.done() and not story.cancelled():
            story.result()

    async def _story(self) -> None:
        self._write_the_law()
        for row in self.plan.nodes:
            for name in numbered(row.name, row.count):
                self.add_machine(name, row)
        for name in (*self.services, *self.machines):
            self.launch(name)
        self.users.begin()
        self.watch.troubled = {fault.target for fault in self.plan.faults if fault.kind in REFUSES}
        for fault in self.plan.faults:
            self.loop.call_at(fault.at / 1_000_000, self.breaking.strike, fault)
        await asyncio.sleep(self.plan.until / 1_000_000)
        self.breaking.mend()
        await self.users.tidy_up()
        await asyncio.sleep(GRACE)
        self.users.cancel_all()
        await self._rest()
        self.cloud.at_rest()
        self.watch.at_rest(self.network.ledger.messages_after(0), self.users.submitting.acknowledged, self.folds, self.machines)

    def _write_the_law(self) -> None:
        facts = (InstallationLevelV1(level=LEVEL, release=RELEASES[-1]), *as_law(self.plan.documents))
        record = Record(by=GOVERNANCE, now=self.network.clock(), engine="simulation", as_of=0, prev="", facts=facts)
        self.network.write(ledger(GOVERNANCE), encode(record))

    def add_machine(self, name: str, row: Any) -> Machine:
        """One more machine."""
        machine = Machine(name, row, Random(f"{self.plan.seed}/{name}"), self.watch.wrong, self.network.clock, self.saved)
        self.machines[name] = machine
        return machine

    async def _rest(self) -> None:
        """Until everything is over, nothing more is written and all have read it, or patience ends."""
        deadline, last, since = self.loop.time() + PATIENCE, -1, 0.0
        while self.loop.time() < deadline:
            await asyncio.sleep(0.5)
            if self.network.ledger.last_sequence != last or not self._is_over():
                last, since = self.network.ledger.last_sequence, self.loop.time()
            elif self.loop.time() - since >= QUIET:
                return

    def _is_over(self) -> bool:
        state = self.watch.state
        tip = self.network.ledger.last_sequence
        return (
            not any(policy.jobs or policy.pending for policy in state.policies.values())
            and not any(machine.running for machine in self.machines.values())
            and all(fold.sequence == tip for fold in self.folds.values())
            and not self.users.busy
            and self.cloud.is_known
        )

    # Processes

    def home(self, name: str) -> str:
        """The process that a service is in; anything else is a process of its own."""
        return self._homes.get(name, name)

    def launch(self, name: str, *, beside: bool = False) -> None:
        """Start it, unless it runs; `beside`: even then."""
        name = self.home(name)
        if self.over or (self.alive(name) is not None and not beside) or name not in (self.services | self.machines):
            return  # a machine of the cloud may have been ended
        process = Process(name, self._ended)
        process.ahead = self.ahead.get(name, 0)
        process.on_crash = self.breaking.crashed
        self.processes.setdefault(name, []).append(process)
        machine = self.machines.get(name)
        process.run(serve(machine, self.network) if machine is not None else self._host(self.services[name]))

    @property
    def folds(self) -> dict[str, LedgerFold]:
        """What each service believes."""
        return {process.name: fold for process, fold in self._folds.items() if process.alive}

    def known_to_have_started(self, node: str) -> set[str]:
        """The leases there whose starts stand in the ledger, and that each feed knows of: what it does not, it orders again."""
        home = self.home("feed")
        states = [self.watch.state, *(fold.state for one, fold in self._folds.items() if one.alive and one.name == home)]
        found = [state.nodes[node].leases.values() if node in state.nodes else () for state in states]
        started = [{lease_id(one.job.key, one.attempt, one.rank) for one in leases if one.started_at} for leases in found]
        return set.intersection(*started)

    def alive(self, name: str) -> Process | None:
        """The process of this name that runs, the last one if there are several."""
        return next((process for process in reversed(self.processes.get(self.home(name), [])) if process.alive), None)

    def kill(self, process: Process) -> None:
        """kill -9: its connections break without a message."""
        self.loop.kill(process)
        self.network.died(process)
        machine = self.machines.get(process.name)
        if machine is not None:
            machine.executor = None

    def _ended(self, process: Process, error: BaseException | None) -> None:
        if self.over:
            return
        self.kill(process)
        self.counts[f"ended: {type(error).__name__}"] += 1
        if isinstance(error, LogBroken) or not isinstance(error, LogError):
            self.watch.wrong(f"{process.name} ended: {error!r}")
        if not (isinstance(error, Fenced) and self.alive(process.name) is not None):
            self.loop.call_later(RESTARTED_AFTER, self.launch, process.name, context=OUTSIDE.context)

    async def _host(self, names: tuple[str, ...]) -> None:
        parts = []
        for name in names:
            connection = await SimulatedConnection.dialled(self.network, name)
            service = Service(name, connection, Path("nowhere"), structlog.get_logger(), Health(name), {})
            parts.append((service, PARTS[name]))
        await hosting.host(parts)

    @property
    def outside(self) -> Any:
        """The context of what belongs to no process."""
        return OUTSIDE.context

    async def _providers(self, _service: Service) -> provisioner.Providers:
        return self.cloud.providers

    # What processes find around them

    @contextlib.contextmanager
    def _installed(self) -> Iterator[None]:
        def wall_clock() -> int:
            return self.network.clock() + current().ahead

        def fold(state: State | None = None) -> LedgerFold:
            made = self._folds[current()] = LedgerFold(state)
            return made

        def loop(follower: Any, log: Any, chain: Any, decider: Any, **more: Any) -> ServiceLoop:
            held = Unchanged(chain.writer, decider, follower.fold.state, self.watch.wrong) if self.hashes else decider
            return ServiceLoop(follower, log, chain, held, **more)

        found: list[tuple[Any, str, Any]] = [
            (deciding, "ServiceLoop", loop),
            (hosting, "wall_clock", wall_clock),
            (governance, "wall_clock", wall_clock),
            (feed, "wall_clock", wall_clock),
            (provisioner, "wall_clock", wall_clock),
            (provisioner, "providers_of", self._providers),
            (provisioner, "Logins", NoLogins),
            (hosting, "freeze_present_objects", self._caught_up),
            (hosting, "LedgerFold", fold),
            (admission, "Keyring", Seals),
            (governance, "Keyring", Seals),
            (feed, "Keyring", Seals),
            (governance, "SigningKeys", Seals),
        ]
        structlog.configure(processors=[self._logged], wrapper_class=structlog.make_filtering_bound_logger(40))
        with contextlib.ExitStack() as stack:
            for where, name, what in found:
                stack.enter_context(patch.object(where, name, what))
            yield
        structlog.reset_defaults()

    def _caught_up(self) -> None:
        name = current().name
        if name in self.struck:
            self.recoveries.append((name, self.loop.time() - self.struck.pop(name)))

    def _logged(self, _logger: Any, level: str, event: dict[str, Any]) -> Any:
        if event["event"] not in NO_TROUBLE and not self.over:
            fields = {key: value for key, value in event.items() if key != "event"}
            self.watch.wrong(f"{current().name} logs {level} {event['event']}: {fields!r}")
        raise structlog.DropEvent

    async def _tidy(self) -> None:
        """Let everything end, so that nothing is left lying about: what was killed too, with all that was still to come in its line."""
        self.over = self.network.over = True
        for processes in self.processes.values():
            for process in processes:
                process.crash_in = 0
                self.loop.go_on(process)
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        left = (await asyncio.wait(tasks, timeout=60.0))[1] if tasks else set()
        for task in left:
            task._log_destroy_pending = False  # type: ignore[attr-defined]


def play(plan: Plan, prepare: Callable[[World], None] | None = None, *, layout: str = APART, hashes: bool = False) -> Outcome:
    """Run a plan."""
    world = World(plan, layout, hashes=hashes)
    if prepare is not None:
        prepare(world)
    return world.run()
