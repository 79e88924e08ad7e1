"""What a node says of itself, and how much of it is believed. Pure.

A node's executor may say anything. What decides which jobs come to it (labels, number of GPUs, level of isolation) is believed as far as an
operator has approved it, with the node's token or later (`node.approved`); the rest is shown. Cores, memory and models of devices are
believed: they change how much of its pool's work comes to a node, not whose. A node without an approval has its login in the
installation's own configuration, which only its owner can write, and is believed.

Below level 2 everything is believed. What nodes had when the level was raised stays approved.
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.contracts.facts.nodes import Device, NodeRegisteredV1
from headrace.contracts.messages.orders import ADDRESS
from headrace.contracts.values.isolation import LEVELS, UNPROVED, Ranks, rank

ANY_VALUE = "*"
"""As the value of an approved label: whatever the node says."""

WEAKEST = LEVELS[0]

LABELS_NAMED, LABEL_SHOWN = 10, 80
"""Labels that are not believed and yet named, and characters of each: a node may say very many, and very long ones."""


class Approval(NamedTuple):
    """The most that is believed of a node.

    `joins`: whether it may be in a pool. `pins`: its token is older than level 2 and it has not registered since: its first registration
    is approved as it comes.
    """

    labels: dict[str, str]
    gpus: int
    isolation: str
    joins: bool = True
    pins: bool = False


class NodeClaimsState(NamedTuple):
    """What a node says of itself, or what is believed of that. `levels`: the ranks of isolation by kind."""

    labels: dict[str, str]
    devices: tuple[Device, ...]
    isolation: str
    levels: Ranks

    @property
    def highest(self) -> str:
        """The highest level of isolation in it."""
        return LEVELS[max(0, rank(self.isolation), *self.levels)]


NOTHING_APPROVED = Approval({}, 0, WEAKEST, joins=False)
FIRST_IS_APPROVED = Approval({}, 0, WEAKEST, joins=False, pins=True)


def approval_of(claims: NodeClaimsState) -> Approval:
    """The approval of exactly that."""
    return Approval({key: value for key, value in claims.labels.items() if key != ADDRESS}, len(claims.devices), claims.highest)


def widened(known: Approval, claims: NodeClaimsState) -> Approval:
    """The least approval that covers an earlier one and what a node says now."""
    labels = known.labels | {key: value for key, value in approval_of(claims).labels.items() if not _covers(known, key, value)}
    highest = LEVELS[max(rank(known.isolation), rank(claims.highest))]
    return Approval(labels, max(known.gpus, len(claims.devices)), highest)


def believed(claims: NodeClaimsState, approval: Approval | None) -> NodeClaimsState:
    """What of a node's claims is believed. Of too many devices the first ones are."""
    if approval is None or approval.pins:
        return claims
    labels = {key: value for key, value in claims.labels.items() if _covers(approval, key, value)}
    cap = rank(approval.isolation)
    levels = Ranks(*[min(level, cap) for level in claims.levels[:-1]])
    return NodeClaimsState(labels, claims.devices[: approval.gpus], _capped(claims.isolation, approval.isolation), levels)


def as_believed(fact: NodeRegisteredV1, approval: Approval | None) -> NodeRegisteredV1:
    """A registration that says only what is believed of it."""
    if approval is None or approval.pins:
        return fact
    claims = believed(NodeClaimsState(fact.labels, fact.devices, fact.isolation, UNPROVED), approval)
    return NodeRegisteredV1(
        node=fact.node,
        labels=claims.labels,
        devices=claims.devices,
        cpu=fact.cpu,
        memory=fact.memory,
        executor=fact.executor,
        isolation=claims.isolation,
        holding=fact.holding,
        levels={kind: _capped(level, approval.isolation) for kind, level in fact.levels.items()},
        reads=fact.reads,
        at=fact.at,
    )


def _capped(level: str, most: str) -> str:
    return level if rank(level) <= rank(most) else most


def beyond(claims: NodeClaimsState, approval: Approval | None) -> tuple[str, ...]:
    """What a node says that is not believed, a few words each."""
    if approval is None or approval.pins:
        return ()
    labels = [
        f"{key}={value}"[:LABEL_SHOWN] for key, value in sorted(claims.labels.items()) if not _covers(approval, key, value)
    ]
    lines = labels[:LABELS_NAMED] + ([f"{len(labels) - LABELS_NAMED} labels more"] if len(labels) > LABELS_NAMED else [])
    if len(claims.devices) > approval.gpus:
        lines.append(f"{len(claims.devices)} GPUs ({approval.gpus} approved)")
    if rank(claims.highest) > rank(approval.isolation):
        lines.append(f"isolation {claims.highest} ({approval.isolation} approved)")
    return tuple(lines)


def with_unfit(claims: NodeClaimsState, name: str, why: str) -> NodeClaimsState:
    """The claims with one device as the node speaks of it now: `why` nothing may be granted on it, or that it is in order again."""
    devices = tuple(
        Device(device=one.device, model=one.model, memory=one.memory, mig=one.mig, unfit=why) if one.device == name else one
        for one in claims.devices
    )
    return claims._replace(devices=devices)


def _covers(approval: Approval, key: str, value: str) -> bool:
    return key == ADDRESS or approval.labels.get(key) in (value, ANY_VALUE)
