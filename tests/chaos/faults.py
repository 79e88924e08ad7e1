"""What is done to the installation: a schedule out of a seed, and how long each part took to be back.

Which fault comes next, on which part and for how long, is the seed's alone; when it comes depends on how fast the machine recovers, since
at most `AT_ONCE` parts are to be out of order.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import time
from collections import Counter, defaultdict, deque
from contextlib import suppress
from typing import NamedTuple

from tests.chaos.disks import Disks
from tests.chaos.network import cut_off
from tests.chaos.place import PARTS, SERVERS, STANDBYS, Place
from tests.chaos.watching import Watching

AT_ONCE = 4
PACE = 0.4
"""Seconds between two faults at least."""
PATIENCE = 150.0
"""Seconds within which a part has to be back."""
SERVERS_APART, CLOSE, PUT_OFF_MOST = 15.0, 0.05, 2
"""Seconds between faults of NATS servers, which may need so long to agree who leads; the part of them that does not wait for it; and how
many of the others wait, at most."""
DRAWN_MOST = 1_000

KINDS = {"kill": 70, "kill leader": 6, "stop": 10, "stop long": 3, "cut": 6, "full": 3, "kill everything": 1}
LASTS = {"stop": (0.5, 5.0), "stop long": (60.0, 65.0), "cut": (2.0, 15.0), "full": (3.0, 8.0)}
UNCUT = frozenset({"gateway", "postgres"})
"""They speak over no TCP of ours, or with the outside only."""


class Fault(NamedTuple):
    """One thing that is done. `seconds`: how long it lasts."""

    kind: str
    part: str
    seconds: float = 0.0


class Faults:
    """`took`: seconds to recover, by kind and part; `lost`: parts that did not come back in time."""

    def __init__(
        self,
        place: Place,
        watching: Watching,
        disks: Disks,
        seed: str,
        *,
        cuts: bool,
        only: tuple[str, ...] = (),
        on: tuple[str, ...] = (),
    ) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.took: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.lost: list[str] = []
        self.running: dict[str, Fault] = {}
        self._place = place
        self._watching = watching
        self._disks = disks
        self._chance = random.Random(seed)
        kinds = {kind: weight for kind, weight in KINDS.items() if not only or kind in only}
        if not cuts:
            kinds.pop("cut", None)
        if not disks.parts:
            kinds.pop("full", None)
        self._kinds = kinds
        self._on = on
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers_hit = -SERVERS_APART
        self._put_off: deque[Fault] = deque()

    @property
    def kills(self) -> int:
        """Processes that were killed with -9."""
        return sum(times for (kind, _), times in self.counts.items() if kind.startswith("kill"))

    def draw(self) -> Fault:
        """The next one."""
        while True:
            fault = self._draw()
            if fault.part.startswith(self._on or ("",)):
                return fault

    def _draw(self) -> Fault:
        kind = self._chance.choices(list(self._kinds), list(self._kinds.values()))[0]
        parts = {
            "kill leader": ("",),
            "kill everything": ("",),
            "cut": tuple(part for part in PARTS if part not in UNCUT),
            "full": self._disks.parts,
        }.get(kind, PARTS)
        part = self._chance.choice(parts)
        return Fault(kind, part, round(self._chance.uniform(*LASTS[kind]), 2) if kind in LASTS else 0.0)

    async def run(self, seconds: float) -> None:
        """So long; then everything that was stopped, cut or filled is as before."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if len(self.running) >= AT_ONCE:
                await asyncio.sleep(0.05)
                continue
            fault = self._next()
            if fault is None:
                await asyncio.sleep(PACE)
                continue
            if fault.kind == "kill everything":
                if deadline - time.monotonic() > 60:
                    await self._everything()
                continue
            part = fault.part or await self._watching.leader()
            if not part or part in self.running:
                continue
            if part in SERVERS:
                self._servers_hit = time.monotonic()
            self.running[part] = fault._replace(part=part)
            task = asyncio.create_task(self._do(fault._replace(part=part)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await asyncio.sleep(PACE)
        await self.settle()

    async def settle(self) -> None:
        """Wait until all that is under way is over."""
        while self._tasks:
            await asyncio.gather(*self._tasks)

    def _next(self) -> Fault | None:
        """What was put off and may be done now, else what is drawn; faults of NATS servers are put off until the last one is over.

        None: for now only such are drawn.
        """
        apart = not any(part in SERVERS for part in self.running) and time.monotonic() - self._servers_hit > SERVERS_APART
        if self._put_off and apart:
            return self._put_off.popleft()
        for _ in range(DRAWN_MOST):
            fault = self.draw()
            close = self._chance.random() < CLOSE and not self._on
            is_server = fault.part in SERVERS or fault.kind == "kill leader"
            if apart or close or not is_server:
                return fault
            if len(self._put_off) < PUT_OFF_MOST:
                self._put_off.append(fault)
        return None

    async def _do(self, fault: Fault) -> None:
        try:
            since = await self._hit(fault)
            if since is None:
                return
            self.counts[fault.kind, fault.part] += 1
            took = await self._watching.until_back(fault.part, since, PATIENCE)
            if took is None:
                self.lost.append(
                    f"{fault.part} was not back {PATIENCE:g} s after: {fault.kind}{self._watching.why(fault.part)}"
                )
            else:
                self.took[fault.kind, fault.part].append(took)
        finally:
            self.running.pop(fault.part, None)

    async def _hit(self, fault: Fault) -> int | None:
        """Do it; the moment from which on the part can be back, in microseconds. None: it does not run just now."""
        pid = self._place.pid(fault.part)
        if not pid and fault.kind != "full":
            return None
        match fault.kind:
            case "kill" | "kill leader":
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                if fault.part in STANDBYS or fault.part not in SERVERS:
                    return _now()
            case "stop" | "stop long":
                try:
                    os.kill(pid, signal.SIGSTOP)
                    await asyncio.sleep(fault.seconds)
                finally:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
            case "cut":
                await cut_off(pid, fault.seconds)
            case "full":
                try:
                    await asyncio.to_thread(self._disks.fill, fault.part)
                    await asyncio.sleep(fault.seconds)
                finally:
                    self._disks.empty(fault.part)
        return _now()

    async def _everything(self) -> None:
        """The supervisor is killed, and with it everything dies at once; then it is started again."""
        await self.settle()
        running = self._place.running()
        if running is None:
            return
        self.counts["kill everything", "all"] += 1
        began = _now()
        os.kill(running.pid, signal.SIGKILL)
        await asyncio.sleep(1.0)
        await asyncio.to_thread(self._place.up)
        took = await self._watching.until_back("allocator", began, PATIENCE)
        if took is None:
            self.lost.append("after everything was killed nothing was granted")
        else:
            self.took["kill everything", "all"].append(took)

    def heal(self) -> None:
        """Whatever may still be stopped goes on, and no disk is full."""
        for part in PARTS:
            self._place.signal(part, signal.SIGCONT)
        for part in self._disks.parts:
            self._disks.empty(part)

    async def let_in(self) -> None:
        """Until cancelled: nodes that were set aside for what was done to them are let in again, as an operator would (R36).

        An answer may be missing while everything breaks, and a node may refuse after its disk has room again: so it is looked all the time.
        """
        while True:
            for node in sorted(self._watching.set_aside):
                fault = self.running.get(f"node-{node}")
                if fault is None or fault.kind != "full":
                    with suppress(subprocess.TimeoutExpired):
                        await asyncio.to_thread(self._place.tried, "node", "uncordon", node, within=30.0)
            await asyncio.sleep(1.0)


def _now() -> int:
    return time.time_ns() // 1_000
