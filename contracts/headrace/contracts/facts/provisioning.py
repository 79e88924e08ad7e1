"""Facts of the *provisioner*: instances that pools create and end (R38), and what their providers say of them.

An instance and its node have one name, which the provisioner makes. Prices are integers of millionths of the installation's currency per
hour. All of these may be stated from level 3 on.
"""

from __future__ import annotations

from headrace.contracts.facts.fact import Fact, Whole
from headrace.contracts.values.value import Value


class OfferTaken(Value, frozen=True, kw_only=True):
    """The offer of a pool by which an instance was ordered, as its document had it then."""

    name: str
    type: str = ""
    region: str = ""
    zone: str = ""
    market: str = "on_demand"


class InstanceOrderedV1(Fact, frozen=True, kw_only=True, tag="instance.ordered.v1"):
    """The provider will be asked for one instance; stated before the first call.

    `growth`: the sequence of the `growth.requested` that it is for; 0: for `min_nodes`. `token`: makes repeated calls one. Every call for
    this order is over at `expires`. `price`: of an hour; `estimate`: what the instance costs at that price until `min_life` or `boot` and
    `idle` are over, whichever is longer.
    """

    instance: str
    pool: str
    growth: int = 0
    provider: str
    offer: OfferTaken
    price: int = 0
    estimate: int = 0
    token: str
    expires: int


class InstanceCreatedV1(Fact, frozen=True, kw_only=True, tag="instance.created.v1"):
    """The provider has made the instance, and calls it `provider_id`. `at`: the provider's time."""

    instance: str
    provider_id: str
    at: Whole


class InstanceRefusedV1(Fact, frozen=True, kw_only=True, tag="instance.refused.v1"):
    """The provider does not make the instance: `CAPACITY`, `QUOTA`, `PRICE` or `INVALID`. Its offer is not used until `closed_until`."""

    instance: str
    code: str
    message: str = ""
    closed_until: int = 0


class InstanceInterruptedV1(Fact, frozen=True, kw_only=True, tag="instance.interrupted.v1"):
    """The provider takes the instance back at `deadline`; stated by its node, which sees the notice. `kind`: `spot`, `maintenance`."""

    node: str
    kind: str
    deadline: Whole
    at: Whole


class InstanceReleasedV1(Fact, frozen=True, kw_only=True, tag="instance.released.v1"):
    """The instance is to end: its node is cordoned, what runs there leaves by its ladder, and it is ended when the node is empty.

    `cause`: `idle`, `unused` (idle without ever having run anything), `max_life`, `interrupted`, `boot_failed`, `no_answer`, `lost` (its
    node was away for twice the time that one takes to boot), `mismatch` (other hardware than promised), `cap` (the pool has spent its cap),
    `offer_gone` (the pool has no such offer any more, and an answer to the order was not heard), `pool_closed` or `operator`. `idle` and
    `unused` have no effect if the node holds a lease by then. Grants of its node that the ledger has behind the release have no effect.
    Until `closed_until` its offer is not used, or, after `unused`, its pool is not asked to grow.
    """

    instance: str
    cause: str
    by: str = ""
    closed_until: int = 0


class InstanceEndedV1(Fact, frozen=True, kw_only=True, tag="instance.ended.v1"):
    """The instance is gone, and its node is removed. `cause`: of its release, `vanished`, or `never_made`. `at`: the provider's time."""

    instance: str
    provider_id: str = ""
    cause: str
    at: Whole


class InstanceOrphanEndedV1(Fact, frozen=True, kw_only=True, tag="instance.orphan_ended.v1"):
    """An instance with this installation's tag that the ledger does not know was ended."""

    provider: str
    provider_id: str
    instance: str


class PriceObservedV1(Fact, frozen=True, kw_only=True, tag="price.observed.v1"):
    """The price of an hour of an offer, as its `source` says it: from now on it counts instead of the document's."""

    pool: str
    offer: str
    price: int
    source: str
