"""Queues of waiting items, one per tenant, served in turn, so that one busy tenant does not delay the others. Pure."""

from __future__ import annotations

from collections import deque
from typing import Generic, NamedTuple, TypeVar

from headrace.service.concurrency_limit import LimitReached

T = TypeVar("T")


class _Waiting(NamedTuple, Generic[T]):
    item: T
    size: int


class BoundedQueues(Generic[T]):
    """At most `most` items and `most_bytes` bytes; of one tenant at most half of either, so that other tenants have room."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._lines: dict[str, deque[_Waiting[T]]] = {}
        self._bytes: dict[str, int] = {}
        self._all = 0
        self._all_bytes = 0

    def __len__(self) -> int:
        return self._all

    def put(self, tenant: str, item: T, size: int) -> None:
        """Append an item of `size` bytes to the tenant's queue. Raises LimitReached."""
        line = self._lines.get(tenant, ())
        mine = self._bytes.get(tenant, 0) + size
        if line and (len(line) >= self._most // 2 or mine > self._most_bytes // 2):
            raise LimitReached(own=True)
        if self._all and (self._all >= self._most or self._all_bytes + size > self._most_bytes):
            raise LimitReached(own=False)
        self._lines.setdefault(tenant, deque()).append(_Waiting(item, size))
        self._bytes[tenant] = mine
        self._all += 1
        self._all_bytes += size

    def take(self) -> T:
        """Remove and return the next item, tenants in turn. Raises IndexError if all queues are empty."""
        if not self._lines:
            raise IndexError("all queues are empty")
        tenant = next(iter(self._lines))
        line = self._lines.pop(tenant)
        item, size = line.popleft()
        self._all -= 1
        self._all_bytes -= size
        self._bytes[tenant] -= size
        if line:
            self._lines[tenant] = line  # after the other tenants
        else:
            del self._bytes[tenant]
        return item
