"""Machines: GPUs and the processes on them, as they really are, whatever services believe or say of them.

What runs goes on when its executor dies, and is gone when the machine loses its power. Each start is held against the truth: no device has
two owners, no lease runs twice, no job is killed before its grace is over.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from headrace.contracts.facts.nodes import Device
from headrace.contracts.messages.orders import StartOrder
from headrace.contracts.values.amounts import CPU_UNITS, GPU_UNITS
from headrace.node_executor.reporting.journal import Journal, Open, Step
from headrace.simulate.scenario import Nodes
from tests.properties.auditor import _can_be_cut
from tests.simulation.clockwork import OUTSIDE

SECOND = 1_000_000
KILLED = 137
TERMINATED = 143
TOLERANCE = 0.05
"""Seconds of a grace that may be missing: a wire's and a timer's."""


class Behaviour(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a simulated job does; it travels as its command. Spans in microseconds; `duration` None: until it is told to stop."""

    duration: int | None = None
    exit_code: int = 0
    abort_takes: int = 0
    term_takes: int = 0
    hooked: bool = False
    stubborn: bool = False
    checkpoint_every: int = 0
    lingers: int = 0


@dataclass(slots=True, eq=False)
class Running:
    """One process. `left`: microseconds of work before it, None for no end; `graced`: seconds of grace that it was given at `notified`."""

    order: StartOrder
    behaviour: Behaviour
    left: int | None
    since: float
    began: float
    code: int | None = None
    finished: bool = False
    suspended: bool = False
    notified: float | None = None
    graced: float = 0.0
    killed: bool = False
    callback: str = ""
    ended_at: int = 0
    free_at: float = 0.0
    checkpoints: int = 0
    unseen: str = ""
    timers: list[asyncio.TimerHandle] = field(default_factory=list)


@dataclass(slots=True)
class Disk:
    """What the executor's journal wrote. `full`: not a byte more."""

    lines: list[bytes] = field(default_factory=list)
    full: bool = False


class MemoryJournal(Journal):
    """The product's journal on a disk that is a list."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._path, self._rewrite_at, self._size, self._whole, self._boot = "", 1 << 62, 0, True, ""
        self.open = {}
        self.unsent = deque()
        self.sending = None
        self.last = 0
        self._stale = False
        self._read()
        if not disk.full:
            self._rewrite()

    def close(self) -> None:
        """Nothing to let go of."""

    def _append(self, step: Step) -> None:
        if not self._whole:
            self._rewrite()
            if not isinstance(step, Open):
                return
        self._whole = False
        self._write([msgspec.json.encode(step)])
        self._whole = True

    def _rewrite(self) -> None:
        kept, self._disk.lines = self._disk.lines, []
        try:
            self._write([msgspec.json.encode(step) for step in self.steps()])
        except OSError:
            self._disk.lines = kept
            raise
        self._whole, self._stale = True, False

    def _write(self, lines: list[bytes]) -> None:
        if self._disk.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._disk.lines += lines

    def _read(self) -> None:
        for line in self._disk.lines:
            self._fold(msgspec.json.decode(line, type=Step))


class Machine:
    """One machine. `wrong` takes what must never be; `saved`: work in each checkpoint, on storage that all share."""

    def __init__(
        self,
        name: str,
        row: Nodes,
        random: Random,
        wrong: Callable[[str], None],
        clock: Callable[[], int],
        saved: dict[str, int],
    ) -> None:
        self.name, self.row, self.random = name, row, random
        self.disk = Disk()
        self.trouble = ""
        self.slow = 1.0
        self.jumped = False
        self.unfit: dict[str, str] = {}
        self.executor: Any = None
        self.running: dict[str, Running] = {}
        self.starts: dict[str, int] = {}
        self.started = 0
        self._wrong, self._clock, self._saved = wrong, clock, saved

    @property
    def devices(self) -> tuple[Device, ...]:
        """As the driver shows them."""
        names, row = [f"gpu{number}" for number in range(self.row.gpus)], self.row
        return tuple(
            Device(device=name, model=row.gpu_model, memory=80 * 1024, mig=row.mig, unfit=self.unfit.get(name, ""))
            for name in names
        )

    @property
    def cpu(self) -> int:
        """Millicores."""
        return self.row.cpus * CPU_UNITS

    def now(self) -> float:
        """True time, seconds."""
        return asyncio.get_running_loop().time()

    def power_off(self, known: set[str]) -> None:
        """Everything on it is gone, and of what the disk was told perhaps the end or all. `known`: what others know to have started."""
        for one in self.running.values():
            self._forget_timers(one)
        self.running.clear()
        self.starts = {lease: starts for lease, starts in self.starts.items() if lease in known}
        lines = self.disk.lines
        del lines[max(0, len(lines) - self.random.choice((0, 1, 2, 3, len(lines)))) :]

    # What the executor does to it

    def start(self, order: StartOrder) -> Running:
        """A process begins."""
        behaviour = msgspec.json.decode(order.command[1], type=Behaviour)
        if order.lease in self.running:
            self._wrong(f"{order.lease} runs twice at once on {self.name}")
        self.starts[order.lease] = self.starts.get(order.lease, 0) + 1
        if self.starts[order.lease] > 1:
            self._wrong(f"{order.lease} is started {self.starts[order.lease]} times on {self.name}")
        self.started += 1
        left = behaviour.duration
        if left is not None:
            left = max(0, left - self._saved.get(order.resume_from, 0))
        one = self.running[order.lease] = Running(order, behaviour, left, self.now(), self.now())
        self._see_owners(order)
        self._go_on(one)
        return one

    def notify(self, lease: str, grace: float) -> bool:
        """Order it to stop; returns whether it reacts. `grace`: seconds until it may be killed."""
        one = self.running[lease]
        if one.notified is None:
            one.notified, one.graced = self.now(), grace
        if one.behaviour.hooked and one.code is None:
            self._later(one, one.behaviour.abort_takes, self._leaves)
        return one.behaviour.hooked

    def call_back(self, lease: str) -> None:
        """Its abort callback begins, and ends after a while; again does nothing."""
        one = self.running[lease]
        if not one.callback:
            one.callback = "runs"
            takes = one.behaviour.abort_takes / SECOND
            asyncio.get_running_loop().call_later(takes, self._called_back, one, context=OUTSIDE.context)

    def stop_callback(self, lease: str) -> None:
        """It is killed."""
        if lease in self.running:
            self.running[lease].callback = "killed"

    def terminate(self, lease: str) -> None:
        """SIGTERM."""
        one = self.running.get(lease)
        if one is not None and one.code is None and not one.behaviour.stubborn:
            self._later(one, one.behaviour.term_takes, self._leaves)

    def kill(self, lease: str, *, graced: bool) -> None:
        """SIGKILL; `graced`: it was promised time before that."""
        one = self.running.get(lease)
        if one is None or one.code is not None:
            return
        if graced and one.notified is not None and self.now() - one.notified < one.graced - TOLERANCE:
            self._wrong(f"{lease} was promised {one.graced:.1f} s, and is killed after {self.now() - one.notified:.1f}")
        one.killed = True
        self.end(one, KILLED)

    def holder(self, lease: str) -> str:
        """Who is still on its devices."""
        one = self.running.get(lease)
        return "something" if one is not None and self.now() < one.free_at else ""

    def suspend(self, lease: str) -> bool:
        """Off its devices; whether that went well."""
        one = self.running.get(lease)
        if one is None or one.code is not None or not self.row.suspends:
            return False
        self._stands(one)
        one.suspended = True
        return True

    def resume(self, lease: str) -> bool:
        """Onto its devices again."""
        one = self.running.get(lease)
        if one is None or one.code is not None:
            return False
        one.suspended, one.notified, one.callback = False, None, ""
        self._see_owners(one.order)
        self._go_on(one)
        return True

    def forget(self, lease: str) -> None:
        """No service needs to know of it any more."""
        one = self.running.pop(lease, None)
        if one is not None:
            self._forget_timers(one)
            if one.code is None:
                self._wrong(f"{lease} is forgotten while it runs on {self.name}")

    def saw(self, lease: str) -> str:
        """A checkpoint that was not reported."""
        one = self.running.get(lease)
        uri = one.unseen if one is not None else ""
        if one is not None:
            one.unseen = ""
        return uri

    # What happens by itself

    def _go_on(self, one: Running) -> None:
        one.since = self.now()
        if one.left is not None:
            self._later(one, one.left, self._done)
        if one.behaviour.checkpoint_every:
            self._later(one, one.behaviour.checkpoint_every, self._checkpoint)

    def _stands(self, one: Running) -> None:
        if one.left is not None:
            one.left = max(0, one.left - round((self.now() - one.since) * SECOND))
        self._forget_timers(one)

    def _later(self, one: Running, microseconds: int, what: Callable[[Running], None]) -> None:
        timer = asyncio.get_running_loop().call_later(microseconds / SECOND, what, one, context=OUTSIDE.context)
        one.timers.append(timer)

    def _done(self, one: Running) -> None:
        one.finished = one.behaviour.exit_code == 0
        self.end(one, one.behaviour.exit_code)

    def _leaves(self, one: Running) -> None:
        if not one.suspended:
            self.end(one, TERMINATED if one.code is None else one.code)

    def _called_back(self, one: Running) -> None:
        if one.callback == "runs" and self.running.get(one.order.lease) is one:
            one.callback = "over"
            self._save(one)
            if self.executor is not None:
                self.executor.receive(self.executor.called_back, one.order.lease)

    def _checkpoint(self, one: Running) -> None:
        if one.code is None:
            self._save(one)
            self._later(one, one.behaviour.checkpoint_every, self._checkpoint)

    def _save(self, one: Running) -> None:
        one.checkpoints += 1
        order = one.order
        one.unseen = f"sim:{order.job}/{order.attempt}/{order.rank}/{one.checkpoints}"
        done = round((self.now() - one.began) * SECOND)
        self._saved[one.unseen] = self._saved.get(order.resume_from, 0) + done
        if self.executor is not None:
            self.executor.receive(self.executor.look, order.lease)

    def end(self, one: Running, code: int) -> None:
        """Its processes are gone."""
        if one.code is not None:
            return
        self._forget_timers(one)
        one.code, one.ended_at = code, self._clock()
        one.free_at = self.now() + one.behaviour.lingers / SECOND
        if self.executor is not None:
            self.executor.receive(self.executor.exited, one.order.lease)

    @staticmethod
    def _forget_timers(one: Running) -> None:
        for timer in one.timers:
            timer.cancel()
        one.timers.clear()

    def _see_owners(self, order: StartOrder) -> None:
        """Who else is on its devices: the truth, not what services have written."""
        there = [
            one.order for one in self.running.values() if not one.suspended and (one.code is None or self.now() < one.free_at)
        ]
        for device in self.devices:
            shares = [share for one in there for share in one.devices if share.device == device.device]
            units = [share.units for share in shares if not share.mig]
            cut = [(share.mig, share.start) for share in shares if share.mig]
            if sum(units) > GPU_UNITS or (GPU_UNITS in units and len(units) > 1) or not _can_be_cut(device.model, cut):
                names = sorted(one.lease for one in there if any(share.device == device.device for share in one.devices))
                self._wrong(f"{self.name}/{device.device} has several owners at once: {', '.join(names)}")
