"""Runs two simulations side by side, each in a process of its own if the system can copy a process, else one after the other.

The second one runs in the copy, and only its result comes back. If both have to be evaluated at the same moment, the later of both ends,
the two exchange their ends before the evaluation.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from headrace.simulate.parent_death import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class PlayLost(Exception):
    """The copy ended without a result: most likely it ran out of memory."""


class Play(Protocol[T_co]):
    """One of the two simulations."""

    def play(self, until: int, progress: Callable[[int], None]) -> int:
        """Run it; returns the moment of the end. `progress` receives thousandths."""

    def outcome(self, end: int) -> T_co:
        """Return the result at the moment `end`."""


def run_pair(
    first: Play[T], second: Play[T], until: int, progress: Callable[[int], None], least: int = 0
) -> tuple[int, tuple[T, T]]:
    """Run both to the same end (at least `least`). `progress`: thousandths of both together. Raises what either raised, and `PlayLost`."""
    if "fork" not in multiprocessing.get_all_start_methods():
        ends = (first.play(until, lambda done: progress(done // 2)), second.play(until, lambda done: progress(500 + done // 2)))
        end = max(*ends, least)
        return end, (first.outcome(end), second.outcome(end))
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_play_there, args=(second, until, theirs, os.getpid()), daemon=True)
    child.start()
    theirs.close()
    try:
        there = _There(ours, progress)
        end = max(first.play(until, there.here), there.end(), least)
        ours.send(end)
        return end, (first.outcome(end), there.result())
    finally:
        child.kill()
        child.join()
        ours.close()


class _There:
    """The simulation in the copied process."""

    def __init__(self, pipe: Connection, progress: Callable[[int], None]) -> None:
        self._pipe = pipe
        self._progress = progress
        self._here = self._away = 0
        self._end: int | None = None

    def here(self, done: int) -> None:
        """Report `done` thousandths of this process's simulation, and read the other's progress."""
        self._here = done
        while self._end is None and self._pipe.poll():
            self._receive_progress()
        self._say()

    def end(self) -> int:
        """Return when the other ended; waits for it."""
        self._here = 1_000
        while self._end is None:
            self._receive_progress()
            self._say()
        return self._end

    def result(self) -> Any:
        """Return the other's result."""
        _, result = self._receive()
        return result

    def _receive_progress(self) -> None:
        sort, value = self._receive()
        if sort == "done":
            self._away = value
        else:
            self._end = value

    def _receive(self) -> tuple[str, Any]:
        try:
            sort, value = self._pipe.recv()
        except EOFError:
            raise PlayLost("one of the two plays ended without a word: there may be too little memory for it") from None
        if sort == "raised":
            raise value
        return sort, value

    def _say(self) -> None:
        self._progress((self._here + self._away) // 2)


def _play_there(play: Play[Any], until: int, pipe: Connection, parent: int) -> None:
    """Runs in the copied process."""
    die_with_parent(parent)
    try:
        pipe.send(("end", play.play(until, lambda done: pipe.send(("done", done)))))
        pipe.send(("outcome", play.outcome(pipe.recv())))
    except Exception as error:  # noqa: BLE001 - it is raised again by the caller
        pipe.send(("raised", error))


@contextmanager
def rarely_collected(objects: int) -> Iterator[None]:
    """Collect cyclic garbage only after `objects` allocations, and never among existing objects."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(objects, 50, 1_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
