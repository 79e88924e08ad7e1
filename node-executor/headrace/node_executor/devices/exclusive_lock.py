"""A door for many who may work at once, and now and then for one who has to be alone: what begins a library anew."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class ExclusiveLock:
    """Many may be inside at once, or one who is `alone`: who wants to be that keeps the others out from then on."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._is_closed = False

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """One of many."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_closed)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else. Not from within: it would wait for itself."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_closed)
            self._is_closed = True
            self._changed.wait_for(lambda: not self._inside)
        try:
            yield
        finally:
            with self._changed:
                self._is_closed = False
                self._changed.notify_all()


class Gated(Protocol):
    """What has a gate."""

    gate: ExclusiveLock


G = TypeVar("G", bound=Gated)
T = TypeVar("T")
P = ParamSpec("P")


def together(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
    """A method that is one of many, as long as it takes."""

    @wraps(method)
    def call(self: G, /, *arguments: P.args, **named: P.kwargs) -> T:
        with self.gate.together():
            return method(self, *arguments, **named)

    return call
