"""Providers of instances: what every one of them does, and those that there are. A provider is one module here (docs/providers.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headrace.contracts.documents.model import BurstNode, Offer


class Order(NamedTuple):
    """All that a provider is told to make one instance. `token` makes repeated calls one; `installation` and `instance` are its tags.

    `environment`: variables of the node executor there, with its login; empty if the login could not be had. `arguments`: of the executor.
    """

    instance: str
    token: str
    installation: str
    pool: str
    offer: Offer
    node: BurstNode
    environment: dict[str, str]
    arguments: tuple[str, ...]


class Created(NamedTuple):
    """An instance was made, now or by an earlier call with the same token. `at`: when, microseconds since 1970."""

    provider_id: str
    at: int


class Refusal(NamedTuple):
    """No instance was made, and none will be by this order: `CAPACITY`, `QUOTA`, `PRICE` or `INVALID`."""

    code: str
    message: str


class Listed(NamedTuple):
    """An instance with our tags in a provider's list. `runs`: False if the provider knows that it has ended."""

    instance: str
    provider_id: str
    created_at: int
    runs: bool = True


class ProviderAway(Exception):
    """The provider did not answer: the call may or may not have had an effect, and is made again."""


class NotAuthorized(ProviderAway):
    """The provider does not accept our credentials: an operator has to renew them. Nothing is known, so nothing follows from it."""


class Provider(Protocol):
    """One provider. Every call may be repeated; each raises ProviderAway without an answer."""

    async def create(self, order: Order) -> Created | Refusal:
        """Make an instance, or find the one that this token made."""

    async def end(self, instance: str, provider_id: str) -> int:
        """End an instance for good; returns when it was gone, in microseconds since 1970. One that is not there has gone already."""

    async def list(self) -> Sequence[Listed]:
        """All instances with the tag of this installation, running or ended."""

    async def prices(self) -> dict[str, int]:
        """Prices of an hour by the name of an offer, in millionths, as far as the provider says them."""
