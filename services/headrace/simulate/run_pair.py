"""Two plays side by side, each in a process of its own where the system can copy a process, else one after the other.

The second play goes into the copy, and comes back as what is told of it. Where both have to be told up to the same moment, that of the
later end, the two exchange how far they came before they tell.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class PlayLost(Exception):
    """The copy ended without a word: most likely there was no memory left for it."""


class Play(Protocol[T_co]):
    """One of the two."""

    def play(self, until: int, progress: Callable[[int], None]) -> int:
        """Play; the moment of the end. `progress` is told how much is done, in thousandths."""

    def tell(self, end: int) -> T_co:
        """What came of it by then."""


def abreast(
    first: Play[T], second: Play[T], until: int, progress: Callable[[int], None], least: int = 0
) -> tuple[int, tuple[T, T]]:
    """Both, to the same end (at least `least`). `progress`: thousandths of both together. Raises what either raised, and `PlayLost`."""
    if "fork" not in multiprocessing.get_all_start_methods():
        ends = (first.play(until, lambda done: progress(done // 2)), second.play(until, lambda done: progress(500 + done // 2)))
        end = max(*ends, least)
        return end, (first.tell(end), second.tell(end))
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_play_there, args=(second, until, theirs), daemon=True)
    child.start()
    theirs.close()
    try:
        there = _There(ours, progress)
        end = max(first.play(until, there.here), there.end(), least)
        ours.send(end)
        return end, (first.tell(end), there.told())
    finally:
        child.kill()
        child.join()
        ours.close()


class _There:
    """What comes from the copy."""

    def __init__(self, pipe: Connection, progress: Callable[[int], None]) -> None:
        self._pipe = pipe
        self._progress = progress
        self._here = self._away = 0
        self._end: int | None = None

    def here(self, done: int) -> None:
        """So much of our own play is done; look what the other says."""
        self._here = done
        while self._end is None and self._pipe.poll():
            self._hear()
        self._say()

    def end(self) -> int:
        """When the other ended; waits for it."""
        self._here = 1_000
        while self._end is None:
            self._hear()
            self._say()
        return self._end

    def told(self) -> Any:
        """What the other tells."""
        _, told = self._receive()
        return told

    def _hear(self) -> None:
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


def _play_there(play: Play[Any], until: int, pipe: Connection) -> None:
    """In the copy."""
    try:
        pipe.send(("end", play.play(until, lambda done: pipe.send(("done", done)))))
        pipe.send(("told", play.tell(pipe.recv())))
    except Exception as error:  # noqa: BLE001 - it is raised where somebody can say it
        pipe.send(("raised", error))


@contextmanager
def seldom_collected(objects: int) -> Iterator[None]:
    """Look for garbage in circles only after so many objects, and never among those that are there already."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(objects, 50, 1_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
