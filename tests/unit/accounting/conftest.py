"""Small histories for the books: a ledger that is told what happened, in seconds, and the rows that come of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.accounting.books.books import Books
from headrace.accounting.books.meter import PastUse
from headrace.accounting.books.meters import MeterKey
from headrace.accounting.books.rollups import NodeSumRow, RollupAccount, SumRow
from headrace.accounting.books.rows import (
    AttemptRow,
    CapacityRow,
    KeptRow,
    LeaseRow,
    ReservationRow,
    RowChanges,
    StoredBooks,
    SuspensionRow,
    place_of,
)
from headrace.accounting.books.tariffs import PriceRow, TariffRow
from headrace.bus.log import Message
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Policy, PolicyProfile, Pool, Profile
from headrace.contracts.facts import Fact
from headrace.contracts.facts.levels import LEVEL, RELEASES
from headrace.contracts.facts.records import Record, digest
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import ledger
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.ids import NODE_WRITER, job_key, make_job_id
from headrace.domain.fold.ledger import FoldedLedger

SECOND = 1_000_000
GPU = GPU_UNITS


def job(number: int, user: str = "alice") -> str:
    return job_key("acme", user, make_job_id(1_000 + number, bytes(10)))


class Story:
    """A ledger with one pool of 100 simulated GPUs, a node `n1` and, as told, policies; times in seconds (fractions allowed)."""

    def __init__(self) -> None:
        self.ledger = FoldedLedger()
        self.books = Books(self.ledger.state)
        self.messages: list[Message] = []
        self._prev: dict[str, str] = {}
        self.state_void = ""
        pool = Pool(name="hq", selector={"site": "hq"})
        profile = Profile(name="any", request={"gpu": GPU}, pools=("hq",))
        self.append_facts(
            0, "governance", f.PoolAppliedV1(author="a.b", pool=pool), f.ProfileAppliedV1(author="a.b", profile=profile)
        )
        devices = tuple(f.nodes.Device(device=f"gpu{n}", model="H100", memory=80_000) for n in range(100))
        self.append_facts(
            0, "node.n1", f.NodeRegisteredV1(node="n1", labels={"site": "hq"}, devices=devices, cpu=10**6, memory=10**6, at=0)
        )

    def append_facts(self, at: float, by: str, *facts: Fact) -> int:
        """Append a record, let the fold and the books read it, and return its sequence."""
        now = round(at * SECOND)
        prev = "" if by.startswith(NODE_WRITER) else self._prev.get(by, "")
        payload = encode(Record(by=by, now=now, engine="test", as_of=len(self.messages), prev=prev, facts=facts))
        return self.append_bytes(now, by, payload)

    def append_bytes(self, now: int, by: str, payload: bytes) -> int:
        self._prev[by] = digest(payload)
        message = Message(len(self.messages) + 1, ledger(by), now, payload)
        self.messages.append(message)
        self.read(message)
        return message.sequence

    def read(self, message: Message) -> None:
        record = self.ledger.read(message)
        self.books.enter(message, record, "" if record is not None else self.ledger.void_reason)

    def policy(self, at: float, name: str, gpus: int, *, keys: dict[str, int] | None = None, **more: Any) -> None:
        """A policy with a policy-wide reservation of this number of GPUs."""
        reservation = {"gpu": gpus * GPU, **(keys or {})}
        policy = Policy(
            tenant="acme", name=name, group=name, profiles=(PolicyProfile(name="any"),), reservation=reservation, **more
        )
        self.append_facts(at, "governance", f.PolicyAppliedV1(author="a.b", policy=policy))

    def submit(self, at: float, number: int, policy: str, gpus: int, **more: Any) -> str:
        key = job(number)
        fact = f.JobAdmittedV1(job=key, policy=policy, profile="any", request={"gpu": gpus * GPU}, **more)
        self.append_facts(at, "admission", fact)
        return key

    def grant(self, at: float, key: str, gpus: int, attempt: int = 1, rank: int = 0, **more: Any) -> int:
        amounts = {"gpu": gpus * GPU, "job": 1} if rank == 0 else {"gpu": gpus * GPU}
        fact = f.LeaseGrantedV1(job=key, attempt=attempt, rank=rank, node="n1", pool="hq", amounts=amounts, **more)
        return self.append_facts(at, "allocator", fact) * 1_000

    def start(self, at: float, key: str, attempt: int = 1, rank: int = 0, reported: float | None = None) -> None:
        moment = round(at * SECOND)
        self.append_facts(
            at if reported is None else reported, "node.n1", f.LeaseStartedV1(job=key, attempt=attempt, rank=rank, at=moment)
        )

    def end(self, at: float, key: str, attempt: int = 1, rank: int = 0, reported: float | None = None, **more: Any) -> None:
        moment = round(at * SECOND)
        fact = f.LeaseEndedV1(
            job=key,
            attempt=attempt,
            rank=rank,
            **({"outcome": "exited", "exit_code": 0, "exited_at": moment, "at": moment} | more),
        )
        self.append_facts(at if reported is None else reported, "node.n1", fact)

    def run(self, since: float, until: float | None, number: int, policy: str, gpus: int, **more: Any) -> str:
        """A job from its submission to the release of its lease."""
        key = self.submit(since, number, policy, gpus, **more)
        self.grant(since, key, gpus)
        if until is not None:
            self.end(until, key)
        return key


class Tables:
    """What the changes add up to, as the database would have it."""

    def __init__(self) -> None:
        self.jobs: dict[str, Any] = {}
        self.attempts: dict[tuple[str, int], dict[str, Any]] = {}
        self.leases: dict[int, dict[str, Any]] = {}
        self.usage: dict[tuple[int, str, int], Any] = {}
        self.preemptions: dict[str, dict[str, Any]] = {}
        self.victims: list[Any] = []
        self.reservations: list[ReservationRow] = []
        self.capacity: list[CapacityRow] = []
        self.suspensions: dict[tuple[int, int], SuspensionRow] = {}
        self.unserved: list[Any] = []
        self.kept: dict[tuple[str, str, str, int], KeptRow] = {}
        self.days: dict[tuple[Any, ...], tuple[int, ...]] = {}
        self.hours: dict[tuple[Any, ...], tuple[int, ...]] = {}
        self.node_hours: dict[tuple[Any, ...], tuple[int, ...]] = {}
        self.tariffs: list[TariffRow] = []
        self.prices: list[PriceRow] = []
        self.nodes: dict[str, Any] = {}
        self.records: list[Any] = []
        self.facts: list[Any] = []
        self.position: Any = None

    def take(self, changes: RowChanges) -> Tables:
        assert self.position is None or self.position == changes.before
        self.position = changes.position
        self.records += changes.records
        self.facts += changes.facts
        for row in changes.jobs:
            was = self.jobs.get(row.job, row)
            self.jobs[row.job] = row._replace(group_name=was.group_name, service_account=was.service_account)
        for row in changes.rejected:
            self.jobs.setdefault(row.job, row)
        for attempt in changes.attempts:
            columns = dict(zip(_ATTEMPT, attempt, strict=True))
            self.attempts[columns["job"], columns["attempt"]] = columns
        for lease in changes.leases:
            columns = dict(zip(_LEASE, lease, strict=True))
            self.leases[columns["lease"]] = columns
        for key, use in changes.usage.items():
            if use is None:
                self.usage.pop(key, None)
            else:
                self.usage[key] = use
        self.preemptions |= {row.preemption: row._asdict() for row in changes.preemptions}
        for settlement in changes.settlements:
            self.preemptions[settlement.preemption] |= settlement._asdict()
        for unused in changes.unused:
            if unused.preemption in self.preemptions:  # a move of a suspended job has no row (R29)
                self.preemptions[unused.preemption] |= unused._asdict()
        self.victims += changes.victims
        self.reservations += changes.reservations
        self.capacity += changes.capacity
        self.nodes |= {row.node: row for row in changes.nodes}
        self.suspensions |= {(row.lease, row.since): row for row in changes.suspensions}
        self.kept |= {row[:4]: row for row in changes.kept}
        self.unserved += changes.unserved
        self.tariffs += changes.tariffs
        self.prices += changes.prices
        for table, rows in ((self.days, changes.days), (self.hours, changes.hours), (self.node_hours, changes.node_hours)):
            for row in rows:
                self._add(table, row)
        return self

    def _add(self, table: dict[tuple[Any, ...], tuple[int, ...]], row: SumRow | NodeSumRow) -> None:
        """As `ON CONFLICT` does it; what comes to nothing is left out, which the database keeps as zeros."""
        names = row._fields.index("reserved")
        place, more = tuple(row[:names]), row[names:]
        sums = tuple(map(sum, zip(table.pop(place, (0,) * len(more)), more, strict=True)))
        if any(sums):
            table[place] = sums

    def restore(self, books: Books, since: int) -> None:
        """What `store.load` does, from these tables."""
        attempts = {key: AttemptRow(**row) for key, row in self.attempts.items() if row["cause"] is None}
        for row in self.leases.values():
            if (row["job"], row["attempt"]) in attempts:
                attempts[row["job"], row["attempt"]].leases[row["rank"]] = LeaseRow(**row)
        suspended = [row for row in self.suspensions.values() if row.until is None]
        accounts = [
            (job, RollupAccount(row.tenant, row.group_name, row.policy, row.profile, row.user_name, row.service_account, ""))
            for job, row in self.jobs.items()
            if row.ended_at is None
        ]
        kept = [row for row in self.kept.values() if row.until is None]
        unsettled = tuple(attempts.values())
        books.restore(
            StoredBooks(unsettled, accounts, suspended, kept, self.reservations, self.capacity, self.tariffs, self.prices)
        )
        keys = {MeterKey(row.tenant, row.policy, row.key) for row in self.reservations}
        keys |= {MeterKey(lease["tenant"], lease["policy"], key) for lease in self.leases.values() for key in lease["amounts"]}
        for key in keys:
            self.remember(books, key, since)

    def remember(self, books: Books, meter: MeterKey, since: int) -> None:
        """What `store.close_gap` does, from these tables."""
        past = []
        for (number, key, begun), use in self.usage.items():
            lease = self.leases[number]
            held = LeaseRow(**lease)
            mine = (lease["tenant"], lease["policy"], key) == meter
            if mine and (use.until is None or use.until >= since):
                past.append(PastUse(place_of(held), begun, *use, held.account))
        reservations = [row for row in self.reservations if (row.tenant, row.policy, row.key) == meter]
        books.remember(meter, since, past, sorted(reservations, key=lambda row: (row.since, row.number)))

    def settle(self, books: Books) -> Tables:
        for gap in books.gaps():
            self.remember(books, gap.meter, gap.since)
        return self.take(books.settle())


_ATTEMPT = tuple(name for name in AttemptRow.__dataclass_fields__ if name != "leases")
_LEASE = tuple(LeaseRow.__dataclass_fields__)


@pytest.fixture
def amended(story: Story) -> Story:
    """A ledger of an installation at the newest level."""
    story.append_facts(0, "governance", f.InstallationLevelV1(level=LEVEL, release=RELEASES[-1]))
    return story


@pytest.fixture
def story() -> Story:
    """A history to be told."""
    return Story()


@pytest.fixture
def tables() -> Tables:
    """Empty books."""
    return Tables()


@pytest.fixture
def new_story() -> Callable[[], Story]:
    """As many histories as a test needs."""
    return Story


@pytest.fixture
def new_tables() -> Callable[[], Tables]:
    """As many books as a test needs."""
    return Tables
