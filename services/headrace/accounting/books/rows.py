"""Rows of the books, one type for each table, fields in the order of its columns; times are microseconds since 1970.

Rows that change while a lease lasts are mutable (`AttemptRow`, `LeaseRow`); the others are immutable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from headrace.accounting.books.meter import LeaseUse, Reservation, UseKey, order_of
from headrace.accounting.books.rollups import NodeSumRow, RollupAccount, SumRow
from headrace.accounting.books.tariffs import PriceRow, TariffRow
from headrace.contracts.values.amounts import Amounts

PLACES = 1_000
"""Maximum number of facts in a record (`RECORD_FACTS_MAX`): a fact's number is sequence * PLACES + place."""


class Position(NamedTuple):
    """How far the books reach: the last record's sequence and digest, and the time of the ledger there (R34)."""

    sequence: int = 0
    digest: str = ""
    now: int = 0


NOWHERE = Position()
"""The position of empty books."""


class RecordRow(NamedTuple):
    """One record, byte for byte. A void one has None as `now`, and `void` says why."""

    sequence: int
    subject: str
    stamped: int
    now: int | None
    digest: str
    void: str
    payload: bytes


class FactRow(NamedTuple):
    """The position of a fact and its subject."""

    sequence: int
    place: int
    type: str
    about: str


class JobRow(NamedTuple):
    """A job as it is now. `waiting_since`: None unless it is pending."""

    job: str
    tenant: str
    user_name: str
    group_name: str
    policy: str
    profile: str
    name: str
    request: Amounts
    replicas: int
    preemptible: bool
    priority: int
    labels: dict[str, str]
    admitted: int
    admitted_at: int
    state: str
    reason: str
    message: str
    attempts: int
    preemptions: int
    exit_code: int | None
    ended_at: int | None
    service_account: bool = False
    waiting_since: int | None = None


class UnservedRow(NamedTuple):
    """A wait that ended without an attempt: the job was cancelled or dismissed."""

    job: str
    since: int
    until: int


class ArrayPartRow(NamedTuple):
    """Elements of an array that ended without an attempt: indices from `first` to `last`, every `step`-th."""

    array_job: str
    first: int
    last: int
    step: int
    state: str
    reason: str
    ended_at: int


@dataclass(slots=True, eq=False)
class LeaseRow:
    """The lease of one replica. `heard_at` is the time of the node's last fact about it (R37)."""

    lease: int
    job: str
    attempt: int
    rank: int
    tenant: str
    user_name: str
    group_name: str
    policy: str
    profile: str
    pool: str
    node: str
    devices: dict[str, int]
    amounts: Amounts
    preemptible: bool
    granted_at: int
    started_at: int | None = None
    heard_at: int = 0
    checkpoint_at: int | None = None
    exited_at: int | None = None
    ended_at: int | None = None
    outcome: str | None = None
    exit_code: int | None = None
    lost_from: int | None = None
    lost_until: int | None = None
    service_account: bool = False
    over_budget: bool = False
    charged_at: int | None = None
    """When the job had started and charging began; None if the lease is not charged."""

    @property
    def account(self) -> RollupAccount:
        """The account of the lease."""
        name = (self.tenant, self.group_name, self.policy, self.profile, self.user_name, self.service_account)
        return RollupAccount(*name, self.pool, self.node)


def place_of(lease: LeaseRow) -> int:
    """The lease's place in R17's order."""
    return order_of(lease.lease, preemptible=lease.preemptible, over_budget=lease.over_budget)


@dataclass(slots=True, eq=False)
class AttemptRow:
    """One attempt of a job; `cause`: None until it is settled."""

    job: str
    attempt: int
    pool: str
    waiting_since: int
    granted_at: int
    started_at: int | None = None
    ended_at: int | None = None
    cause: str | None = None
    exit_code: int | None = None
    resume_from: str = ""
    checkpoint: str = ""
    checkpoint_step: int | None = None
    checkpoint_at: int | None = None
    leases: dict[int, LeaseRow] = field(default_factory=dict)
    """Leases by rank; not a column."""


class SuspensionRow(NamedTuple):
    """A suspension of a lease, and the units of `gpu` that it would have held; `until` None: it lasts."""

    lease: int
    since: int
    until: int | None
    units: int


class KeptRow(NamedTuple):
    """Free units of a node that were kept for a job, with its account; `until` None: they still are."""

    job: str
    node: str
    key: str
    since: int
    until: int | None
    units: int
    tenant: str
    group_name: str
    policy: str
    profile: str
    user_name: str
    service_account: bool
    pool: str


class PreemptionRow(NamedTuple):
    """A preemption when it was ordered."""

    preemption: str
    job: str
    pool: str
    cause: str
    rule: str
    ordered: int
    ordered_at: int


class VictimRow(NamedTuple):
    """A victim of a preemption."""

    preemption: str
    job: str
    attempt: int
    policy: str
    lost: int


class SettlementRow(NamedTuple):
    """How a preemption ended; durations in microseconds, `lost` in whole GPU-seconds."""

    preemption: str
    settled_at: int
    to_signal: int
    grace: int
    to_release: int
    lost: int


class UnusedRow(NamedTuple):
    """Why the units freed by a preemption were no longer kept for its preemptor."""

    preemption: str
    unused: str


class ReservationRow(NamedTuple):
    """A policy's reservation of a key since a time, and the group that it was for."""

    tenant: str
    policy: str
    key: str
    number: int
    since: int
    amount: int
    group_name: str = ""

    @property
    def change(self) -> Reservation:
        """The reservation for a meter."""
        return Reservation(self.since, self.number, self.amount)


class CapacityRow(NamedTuple):
    """A pool's supply of a key since a time (R6)."""

    pool: str
    key: str
    number: int
    since: int
    known: int
    usable: int


class InstanceRow(NamedTuple):
    """An instance of a pool that creates its nodes, as it is now. `price` of an hour, in millionths; times None: not yet."""

    instance: str
    pool: str
    provider: str
    provider_id: str
    offer: str
    market: str
    price: int
    ordered_at: int
    created_at: int | None
    joined_at: int | None
    ended_at: int | None
    cause: str


class NodeRow(NamedTuple):
    """A node as it is now."""

    node: str
    pool: str
    state: str
    cordoned: str
    labels: dict[str, str]
    model: str
    gpus: int
    cpu: int
    memory: int
    registered_at: int


@dataclass(slots=True, eq=False)
class RowChanges:
    """Changes of the books by a part of the ledger: from `before` to `position`, all in one transaction."""

    before: Position
    position: Position
    records: list[RecordRow] = field(default_factory=list)
    facts: list[FactRow] = field(default_factory=list)
    jobs: list[JobRow] = field(default_factory=list)
    rejected: list[JobRow] = field(default_factory=list)
    attempts: list[tuple[object, ...]] = field(default_factory=list)
    leases: list[tuple[object, ...]] = field(default_factory=list)
    unserved: list[UnservedRow] = field(default_factory=list)
    array_parts: list[ArrayPartRow] = field(default_factory=list)
    suspensions: list[SuspensionRow] = field(default_factory=list)
    usage: dict[UseKey, LeaseUse | None] = field(default_factory=dict)
    kept: list[KeptRow] = field(default_factory=list)
    days: list[SumRow] = field(default_factory=list)
    hours: list[SumRow] = field(default_factory=list)
    node_hours: list[NodeSumRow] = field(default_factory=list)
    tariffs: list[TariffRow] = field(default_factory=list)
    prices: list[PriceRow] = field(default_factory=list)
    preemptions: list[PreemptionRow] = field(default_factory=list)
    victims: list[VictimRow] = field(default_factory=list)
    settlements: list[SettlementRow] = field(default_factory=list)
    unused: list[UnusedRow] = field(default_factory=list)
    reservations: list[ReservationRow] = field(default_factory=list)
    capacity: list[CapacityRow] = field(default_factory=list)
    nodes: list[NodeRow] = field(default_factory=list)
    instances: dict[str, InstanceRow] = field(default_factory=dict)


class StoredBooks(NamedTuple):
    """Stored rows from which books continue: attempts not settled, the accounts of jobs that go on, suspensions, and the rest."""

    unsettled: Sequence[AttemptRow] = ()
    accounts: Iterable[tuple[str, RollupAccount]] = ()
    suspensions: Sequence[SuspensionRow] = ()
    kept: Sequence[KeptRow] = ()
    reservations: Sequence[ReservationRow] = ()
    supply: Sequence[CapacityRow] = ()
    tariffs: Sequence[TariffRow] = ()
    prices: Sequence[PriceRow] = ()


LEASE_COLUMNS = tuple(name for name in LeaseRow.__dataclass_fields__)
ATTEMPT_COLUMNS = tuple(name for name in AttemptRow.__dataclass_fields__ if name != "leases")
lease_columns, attempt_columns = attrgetter(*LEASE_COLUMNS), attrgetter(*ATTEMPT_COLUMNS)


def plain(text: str) -> str:
    """`text` without NUL, which PostgreSQL cannot store."""
    return text.replace("\0", "\ufffd") if "\0" in text else text


def plain_map(values: Mapping[str, str]) -> dict[str, str]:
    """Labels without NUL, which PostgreSQL cannot store."""
    return {plain(key): plain(value) for key, value in values.items()}
