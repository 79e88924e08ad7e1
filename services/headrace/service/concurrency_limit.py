"""How many of something go on at once: so many altogether, and of one tenant so few that others always find room. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class LimitReached(Exception):
    """There is no place now. `own`: because of what the one who asks has going on itself, and not because of others."""

    def __init__(self, *, own: bool) -> None:
        super().__init__("no place now")
        self.own = own


class ConcurrencyLimit:
    """At most `most` at once, and at most `each` of one `who`, which is a tenant or a caller."""

    def __init__(self, most: int, each: int) -> None:
        self.most = most
        self.each = each
        self._taken: Counter[str] = Counter()

    @contextmanager
    def one(self, who: str) -> Iterator[None]:
        """A place for as long as the block lasts. Raises `LimitReached`."""
        self.take(who)
        try:
            yield
        finally:
            self.leave(who)

    def take(self, who: str) -> None:
        """A place until `leave`. Raises `LimitReached`."""
        if self._taken[who] >= self.each:
            raise LimitReached(own=True)
        if self._taken.total() >= self.most:
            raise LimitReached(own=False)
        self._taken[who] += 1

    def leave(self, who: str) -> None:
        """Give a place back."""
        self._taken[who] -= 1
        if not self._taken[who]:
            del self._taken[who]
