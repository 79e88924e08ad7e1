"""Supervision of one of several NATS servers whose disk may be full: it must not go on with a copy that differs from the others'.

A server without space for a record that the servers have agreed on omits it for ever, and stores the next one in its place (NATS 2.12.8;
its memory of the agreement may say so even if the files do not yet). It does not notice; readers there do, when the chain of records
breaks. So:

- before its disk is full, it is stopped until there is space, while the others go on;
- when it says that it could not write, it is killed at once, and its copy is *doubted*: it is emptied, and copied anew, as soon as there
  is space and the others have everything without it;
- if they have not within some seconds, because another is away or doubted as well, it goes on as it is until they have. They are emptied
  one after the other; the leader meanwhile is one that is not doubted, if possible.

Its messages are in its log, so a doubt outlives this process.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from typing import TYPE_CHECKING

from headrace.supervisor.nats import full_disk
from headrace.supervisor.nats.full_disk import MIB, Signs, free, has_sign

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection
    from pathlib import Path

    from headrace.supervisor.processes.child_processes import Child

LOOK_EVERY = 0.25
STOPPED_BELOW, NEEDED = 32 * MIB, full_disk.NEEDED
"""Free bytes below which it is stopped, and from which on it is started again."""
THERE_FOR, WAITS_FOR = 10.0, 20.0
"""Seconds for which the others have to be there before a doubted one is emptied, and for which it waits until they have everything."""

_STREAMS, _REMOVED = "jetstream", "jetstream-let-go"
"""Names of a server's data, and of the same while it is being removed."""

_DOUBTED = b"-- it could not write, and is ended: its copy of the streams may not be the others'\n"
_SETTLED = b"-- its copy of the streams has been removed: the others have everything, and it copies anew\n"


class Replicas:
    """The replicas of one cluster. `changed` is called when the trouble of one has changed.

    `have_all`: whether, without the server of the first name, the others have everything that has been acknowledged, and none of the
    servers in the second argument leads.
    """

    def __init__(self, have_all: Callable[[str, Collection[str]], Awaitable[bool]], changed: Callable[[], None]) -> None:
        self._have_all = have_all
        self.changed = changed
        self.each: list[ReplicaSupervisor] = []
        self._one = asyncio.Lock()

    def watch_over(self, server: Child, store: Path) -> ReplicaSupervisor:
        """Add a replica, and return its supervision."""
        self.each.append(ReplicaSupervisor(server, store, self))
        return self.each[-1]

    async def may_empty(self, one: ReplicaSupervisor) -> bool:
        """Return whether it may be emptied now. One at a time is: the one emptied before has to be back, for a while."""
        async with self._one:
            if any(other.runs_for < THERE_FOR for other in self.each if other is not one):
                return False
            doubted = {each.name for each in self.each if each.doubted}
            return await self._have_all(one.name, doubted if len(doubted) < len(self.each) else ())


class ReplicaSupervisor:
    """Supervises one of the replicas."""

    def __init__(self, server: Child, store: Path, among: Replicas) -> None:
        self._server = server
        self._store = store
        self._among = among
        self._signs = Signs()
        self._short = False
        self._began = 0.0
        self.doubted = self._was_doubted()

    @property
    def name(self) -> str:
        """Name of the process."""
        return self._server.program.name

    @property
    def runs_for(self) -> float:
        """Seconds since it was started; negative while it does not run."""
        return time.monotonic() - self._began if self._began else -1.0

    def on_output(self, output: bytes) -> None:
        """See `ChildSupervision.on_output` for the contract."""
        if not self._signs.on_output(output):
            return
        if not self.doubted:
            self._server.log.write(_DOUBTED)
            self.doubted = True
        self._end(at_once=True)

    async def watch(self) -> None:
        """Stop it before its disk is full, and empty it as soon as the others can do without it. Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if self.runs_for < 0:
                continue
            left = self._free_bytes()
            if left is None:
                continue
            if left < STOPPED_BELOW:
                self._short = True
                self._end()
            elif not self.doubted:
                self._report("")
            elif await self._among.may_empty(self):
                self._end(at_once=True)

    async def before_start(self) -> None:
        """Wait for free space, and for a copy that is the others', or none, or the best that exists."""
        self._began = 0.0
        await self._until_space()
        if self.doubted:
            await self._empty_when_spared()
        self._began = time.monotonic()

    async def _until_space(self) -> None:
        need = NEEDED if self._short or self.doubted else STOPPED_BELOW
        while (left := self._free_bytes()) is None or left < need:
            if left is not None:
                need = NEEDED
                place = f"the disk of {self._store} is full ({left // MIB} MiB free)"
                self._report(f"{place}: it is away until there is room, then it goes on")
            await asyncio.sleep(LOOK_EVERY)
        self._short = False
        await asyncio.to_thread(shutil.rmtree, self._store / _REMOVED, ignore_errors=True)
        self._report("")

    def _free_bytes(self) -> int | None:
        """Return the free bytes; None if unknown, with the reason as its trouble."""
        try:
            return free(self._store)
        except OSError as error:
            self._report(f"its store cannot be reached: {error.strerror}: {self._store}")
            return None

    async def _empty_when_spared(self) -> None:
        """Empty it, or let it go on as it is if the others need it."""
        since = time.monotonic()
        self._report("its disk was full: it is away until the others have everything, then it is emptied, and copies anew")
        while not await self._among.may_empty(self):
            if time.monotonic() - since > WAITS_FOR:
                self._report("its disk was full: it is emptied, and copies anew, as soon as the others have everything")
                return
            await asyncio.sleep(LOOK_EVERY)
        while trouble := await asyncio.to_thread(self._empty_store):
            self._report(
                f"its disk was full, and its copy of the streams, which may not be the others', cannot be removed: {trouble}"
            )
            await asyncio.sleep(LOOK_EVERY)
        self._server.log.write(_SETTLED)
        self.doubted = False
        self._report("")

    def _empty_store(self) -> str:
        """Empty the store atomically, so that it never starts with a part of it; returns why that failed, or ""."""
        try:
            if (self._store / _STREAMS).exists():
                (self._store / _STREAMS).rename(self._store / _REMOVED)
        except OSError as error:
            return error.strerror or str(error)
        shutil.rmtree(self._store / _REMOVED, ignore_errors=True)
        return ""

    def _end(self, *, at_once: bool = False) -> None:
        self._began = 0.0
        self._server.restart(at_once=at_once)

    def _was_doubted(self) -> bool:
        try:
            output = self._server.log.path.read_bytes()
        except FileNotFoundError:
            return False
        since = output[output.rfind(_SETTLED) + 1 :]
        return _DOUBTED in since or any(has_sign(line) for line in since.splitlines() if not line.startswith(b"-- "))

    def _report(self, trouble: str) -> None:
        full_disk.set_trouble(self._server, trouble, self._among.changed)
