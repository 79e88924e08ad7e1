"""Requests and views of instances of pools that create their nodes (R38). Prices are texts as people write them."""

from __future__ import annotations

from headrace.contracts.values.value import Value


class InstanceTokenRequest(Value, frozen=True, kw_only=True):
    """From *provisioner* to *governance* `instance-token`: the one-time code of an instance that was ordered."""

    instance: str


class JoinRequest(Value, frozen=True, kw_only=True):
    """From an instance to *governance* `join`: its one-time code, to be exchanged for the token of its node.

    `nonce`: made and kept by the instance, 32 hexadecimal digits or more. The exchange may be repeated with the same one only.
    """

    code: str
    nonce: str


class EndInstanceRequest(Value, frozen=True, kw_only=True):
    """To *provisioner* `end`: release an instance. In the `ApplyAnswer`, `running` are the jobs that have to leave first."""

    instance: str
    reason: str = ""


class CheckRequest(Value, frozen=True, kw_only=True):
    """To *provisioner* `check`: what the provider of a pool would say of orders by its offers."""

    pool: str


class OfferCheck(Value, frozen=True, kw_only=True):
    """What the provider says of one offer. `problem`: why an order would be refused; empty: nothing is known against it."""

    offer: str
    problem: str = ""


class CheckAnswer(Value, frozen=True, kw_only=True):
    """What the provider of a pool says of its offers, in the order of the document."""

    pool: str
    provider: str
    offers: tuple[OfferCheck, ...] = ()


class InstanceView(Value, frozen=True, kw_only=True):
    """One instance. `stage`: `ordered`, `booting`, `joined`, `leaving`, `refused` or `ended`; `cause`: why it leaves, ended or was refused.

    Times in microseconds since 1970; 0: not yet. `price` of an hour, and `cost` so far at that price; empty: not known.
    """

    instance: str
    pool: str
    stage: str
    cause: str = ""
    message: str = ""
    provider: str
    provider_id: str = ""
    offer: str = ""
    market: str = ""
    price: str = ""
    cost: str = ""
    ordered_at: int = 0
    joined_at: int = 0
    ended_at: int = 0
    jobs: int = 0


class OfferView(Value, frozen=True, kw_only=True):
    """One offer of a pool, in the order in which they are asked. `closed`: why it is not used now; `closed_until`: 0 for good."""

    pool: str
    offer: str
    provider: str
    type: str = ""
    region: str = ""
    zone: str = ""
    market: str = ""
    price: str = ""
    max_price: str = ""
    closed: str = ""
    closed_until: int = 0


class PlanRequest(Value, frozen=True, kw_only=True):
    """What would be ordered if a pool were asked for `nodes` nodes now."""

    pool: str
    nodes: int = 1


class PlannedInstance(Value, frozen=True, kw_only=True):
    """An instance that would be ordered. `estimate`: what it costs at least, if its price is known."""

    offer: str
    market: str
    price: str = ""
    estimate: str = ""


class PlanAnswer(Value, frozen=True, kw_only=True):
    """What would be ordered; `notes` say why it is fewer than asked for, and what else counts."""

    pool: str
    provider: str
    instances: tuple[PlannedInstance, ...] = ()
    estimate: str = ""
    notes: tuple[str, ...] = ()
