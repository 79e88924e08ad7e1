"""Providers of instances: what every one of them does, and those that there are. A provider is one module here (docs/providers.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from headrace.contracts.documents.model import Burst, BurstNode, Offer


class Order(NamedTuple):
    """All that a provider is told to make one instance. `token` makes repeated calls one; `installation` and `instance` are its tags.

    `machine`: what it is made with. `ends_within`: seconds until the instance has to end if its executor does not run.
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
    machine: Machine
    ends_within: int = 0


class Machine(NamedTuple):
    """What an instance is made with, in the provider's words; `disk` in MiB, 0: as the image has it."""

    image: str = ""
    template: str = ""
    network: str = ""
    firewalls: tuple[str, ...] = ()
    disk: int = 0


def machine_of(burst: Burst, offer: Offer) -> Machine:
    """What instances of an offer are made with: as the offer says, else as the pool does."""
    return Machine(
        offer.image or burst.image,
        offer.template or burst.template,
        offer.network or burst.network,
        burst.firewalls,
        burst.disk,
    )


class OfferAsked(NamedTuple):
    """An offer of a pool, and what its instances are made with."""

    offer: Offer
    machine: Machine


class Created(NamedTuple):
    """An instance was made, now or by an earlier call with the same token. `at`: when, microseconds since 1970."""

    provider_id: str
    at: int


class Refusal(NamedTuple):
    """No instance was made, and none will be by this order: `CAPACITY`, `QUOTA`, `PRICE` or `INVALID`."""

    code: str
    message: str


class Listed(NamedTuple):
    """An instance with our tags in a provider's list.

    `runs`: False if the provider knows that it has ended. `ended_at`: when, in microseconds since 1970; 0: not known.
    """

    instance: str
    provider_id: str
    created_at: int
    runs: bool = True
    region: str = ""
    ended_at: int = 0


class ProviderAway(Exception):
    """The provider did not answer: the call may or may not have had an effect, and is made again."""


class NotYet(ProviderAway):
    """The instance will be there later, such as when its machine has woken: the call is made again, and nothing is wrong."""


class NotAuthorized(ProviderAway):
    """The provider does not accept our credentials: an operator has to renew them. Nothing is known, so nothing follows from it."""


class Provider(Protocol):
    """One provider. Every call may be repeated; each raises ProviderAway without an answer."""

    async def create(self, order: Order) -> Created | Refusal:
        """Make an instance, or find the one that this token made."""

    async def end(self, instance: str, provider_id: str, region: str) -> int:
        """End an instance for good; returns when it was gone, in microseconds since 1970. One that is not there has gone already.

        `provider_id` is empty if the answer to its order was lost. Raises NotYet for one that was made, where lists may lag: what is not
        shown may run.
        """

    async def list(self, regions: Sequence[str]) -> Sequence[Listed]:
        """All instances in these regions with the tag of this installation, running or ended."""

    async def prices(self, offers: Sequence[Offer]) -> dict[str, int]:
        """Prices of an hour by the name of an offer of one pool, in millionths, as far as the provider says them."""

    async def check(self, offers: Sequence[OfferAsked]) -> dict[str, str]:
        """Why an order by each offer of one pool would be refused, by its name; empty if nothing is known against it. Makes nothing."""
