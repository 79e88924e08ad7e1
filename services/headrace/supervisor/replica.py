"""One of several NATS servers, whose disk may be full: it must not go on with a copy of the streams that is not the others'.

A server that finds no room for a record that the servers have agreed on leaves it out, and stores the next one in its place if that one
is small enough (NATS 2.12.8). It does not notice; whoever reads there does, when the chain of records breaks. So:

- before its disk is full, it is stopped until there is room, while the others go on;
- where it says that it could not write, it is killed at once, and its copy is *doubted*. It is started again when there is room and its
  copy has been held against the others': with it, where it is the same; without it, where it is not, as soon as the two others have
  everything without it; then it copies anew.

What it has said stands in its log, and so a doubt outlives this process.
"""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

from headrace.supervisor import full_disk
from headrace.supervisor.comparing import compared
from headrace.supervisor.full_disk import MIB, Signs, free, has_sign

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from headrace.supervisor.children import Child

LOOK_EVERY = 0.25
STOPPED_BELOW, ROOM = 32 * MIB, full_disk.ROOM
"""Bytes that are free when it is stopped, and when it is started again."""

_STREAMS, _LET_GO = "jetstream", "jetstream-let-go"
"""Where a server keeps everything, and what that is called while it is being removed."""

_DOUBTED = (
    b"-- it could not write, and is ended: before it is started again its copy of the streams is held against the others'\n"
)
_SETTLED = b"-- its copy of the streams was held against the other servers' copies: "


class Replica:
    """Looks after one of several servers. `among`: all of them; it adds itself. `changed` is called when what is wrong with it has.

    `have_all`: whether, while the server of this name is away, the others have everything that has been acknowledged.
    """

    def __init__(
        self,
        server: Child,
        store: Path,
        among: list[Replica],
        changed: Callable[[], None],
        have_all: Callable[[str], Awaitable[bool]],
    ) -> None:
        self.store = store
        self._among = among
        self._server = server
        self._changed = changed
        self._have_all = have_all
        self._signs = Signs()
        self._short = False
        self._waits = False
        self.doubted = self._was_doubted()
        among.append(self)

    @property
    def name(self) -> str:
        """That of the process."""
        return self._server.program.name

    @property
    def _others(self) -> list[Replica]:
        return [one for one in self._among if one is not self]

    def heard(self, said: bytes) -> None:
        """See `Vigil.heard`."""
        if self._signs.heard(said) and not self._waits:
            if not self.doubted:
                self._server.log.write(_DOUBTED)
            self.doubted = True
            self._server.restart(at_once=True)

    async def watch(self) -> None:
        """Stop it before its disk is full. Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY)
            if not self._waits and self._server.pid and free(self.store) < STOPPED_BELOW:
                self._short = True
                self._server.restart()

    async def before_life(self) -> None:
        """See `Vigil.before_life`: there is room, and its copy is the others', or none."""
        self._waits = True
        await asyncio.to_thread(shutil.rmtree, self.store / _LET_GO, ignore_errors=True)
        try:
            while hindrance := await self._hindrance():
                self._tell(hindrance)
                await asyncio.sleep(LOOK_EVERY)
        finally:
            self._waits = False
        self._short = False
        self._tell("")

    async def _hindrance(self) -> str:
        left = free(self.store)
        if left < (ROOM if self._short or self.doubted else STOPPED_BELOW):
            self._short = True
            return f"the disk of {self.store} is full ({left // MIB} MiB free): it is away until there is room, then it goes on"
        if not self.doubted:
            return ""
        try:
            return await self._examine()
        except OSError as error:
            return f"its disk was full, and its copy of the streams cannot be held against the others': {error}"

    async def _examine(self) -> str:
        """Hold it against the others', and settle it; or what has to come first."""
        each = [(other, await asyncio.to_thread(compared, self.store, other.store)) for other in self._others]
        if any(not (found.where or found.behind) for other, found in each if not other.doubted):
            return self._settle("the same")
        unlike = next((f"{found.where} is not as {other.name} has it" for other, found in each if found.where), "")
        if not any(other.doubted for other in self._others):
            if not await self._have_all(self.name):
                wrong = unlike or "the others are not as far"
                return f"its disk was full ({wrong}): it waits until the others have everything, then it is looked at, and copies anew"
            if not unlike:
                return self._settle("the same")
            await asyncio.to_thread(self._let_go)
            return self._settle(f"{unlike}: emptied, it copies anew")
        trusted = [found for other, found in each if not other.doubted]
        like = [found for _, found in each if not found.where]
        if like and not any(found.where for found in trusted):  # without it there may be nobody to agree with
            return self._settle("the same as far as the others' go")
        return (
            f"its disk was full, as another's was, and {unlike}: see the runbook HeadraceDiskFilling for which of them is right"
        )

    def _let_go(self) -> None:
        """Empty the store: at once, so that nobody ever starts with a part of it."""
        (self.store / _STREAMS).rename(self.store / _LET_GO)
        shutil.rmtree(self.store / _LET_GO)

    def _settle(self, found: str) -> str:
        self._server.log.write(_SETTLED + found.encode() + b"\n")
        self._signs.forget()
        self.doubted = False
        return ""

    def _was_doubted(self) -> bool:
        try:
            said = self._server.log.path.read_bytes()
        except FileNotFoundError:
            return False
        since = said[said.rfind(_SETTLED) + 1 :]
        return any(
            has_sign(line) for line in since.splitlines() if not line.startswith(b"-- ")
        )  # those are ours, about the log

    def _tell(self, trouble: str) -> None:
        full_disk.tell(self._server, trouble, self._changed)
