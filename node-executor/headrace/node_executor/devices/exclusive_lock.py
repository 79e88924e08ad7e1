"""A shared and exclusive lock: many calls at once, or one that is alone, such as one that reinitialises a library."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class ExclusiveLock:
    """Held by many at once (`together`), or by one (`alone`): a waiting `alone` keeps new ones out."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.inside = 0
        self.is_closed = False

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Hold the lock together with others."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_closed)
            self.inside += 1
        try:
            yield
        finally:
            with self._changed:
                self.inside -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lock alone. Not inside `together` of the same thread: it would wait for itself."""
        with self._changed:
            self._changed.wait_for(lambda: not self.is_closed)
            self.is_closed = True
            self._changed.wait_for(lambda: not self.inside)
        try:
            yield
        finally:
            with self._changed:
                self.is_closed = False
                self._changed.notify_all()


class Gated(Protocol):
    """An object with a lock named `gate`."""

    gate: ExclusiveLock


G = TypeVar("G", bound=Gated)
T = TypeVar("T")
P = ParamSpec("P")


def together(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
    """Decorate a method to hold the lock together with others."""

    @wraps(method)
    def call(self: G, /, *arguments: P.args, **named: P.kwargs) -> T:
        with self.gate.together():
            return method(self, *arguments, **named)

    return call
