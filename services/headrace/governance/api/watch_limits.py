"""Limits of concurrent watches: of all callers, of each caller, and of each tenant, so that others can watch too."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from grpc import StatusCode

from headrace.governance.api.errors import ApiError
from headrace.service.concurrency_limit import ConcurrencyLimit, LimitReached

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.identity.caller import Caller

WATCHERS_MAX = 500
WATCHERS_EACH = 50
"""Maximum watches of one caller."""
WATCHERS_OF_A_TENANT = 350
"""Maximum watches of all callers of a tenant."""


class WatchLimits:
    """Counts the watches of one kind."""

    def __init__(self, most: int = WATCHERS_MAX, each: int = WATCHERS_EACH, of_a_tenant: int = WATCHERS_OF_A_TENANT) -> None:
        self._by_caller = ConcurrencyLimit(most, each)
        self._by_tenant = ConcurrencyLimit(most, of_a_tenant)

    @contextmanager
    def one(self, caller: Caller) -> Iterator[None]:
        """Count one more watch while the block runs. Raises ApiError if the caller, the tenant or all have too many."""
        message = "there are too many watches now; try again later"
        try:
            self._by_caller.take(caller.bearer)
        except LimitReached as full:
            if full.own:
                message = f"you have {self._by_caller.each} watches already; end one of them, or watch all jobs in one"
            raise ApiError(StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_WATCHERS", message) from None
        try:
            try:
                self._by_tenant.take(_account(caller))
            except LimitReached as full:
                if full.own:
                    message = f"the users of your tenant have {self._by_tenant.each} watches already; end one of them"
                raise ApiError(StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_WATCHERS", message) from None
            try:
                yield
            finally:
                self._by_tenant.leave(_account(caller))
        finally:
            self._by_caller.leave(caller.bearer)


def _account(caller: Caller) -> str:
    """Tenant that a watch counts for; empty for the provider."""
    return "" if caller.is_provider else caller.tenant
