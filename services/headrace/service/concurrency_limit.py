"""A limit on concurrent operations, in total and per tenant, so that other tenants always have room. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class LimitReached(Exception):
    """The limit is reached. `own`: by the caller's own operations, not by those of others."""

    def __init__(self, *, own: bool) -> None:
        super().__init__("the limit of concurrent operations is reached")
        self.own = own


class ConcurrencyLimit:
    """At most `most` operations at once, and at most `each` of one `who`, which is a tenant or a caller."""

    def __init__(self, most: int, each: int) -> None:
        self.most = most
        self.each = each
        self._taken: Counter[str] = Counter()

    @contextmanager
    def one(self, who: str) -> Iterator[None]:
        """Hold a slot for the duration of the block. Raises LimitReached."""
        self.take(who)
        try:
            yield
        finally:
            self.leave(who)

    def take(self, who: str) -> None:
        """Take a slot until `leave`. Raises LimitReached."""
        if self._taken[who] >= self.each:
            raise LimitReached(own=True)
        if self._taken.total() >= self.most:
            raise LimitReached(own=False)
        self._taken[who] += 1

    def leave(self, who: str) -> None:
        """Release a slot taken by `take`."""
        self._taken[who] -= 1
        if not self._taken[who]:
            del self._taken[who]
