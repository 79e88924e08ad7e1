"""What the executor must still know after a crash: the leases it holds, and the facts that the ledger may not have.

Strategy: one JSON line for each step in an append-only file, written before the step is taken and not synced: it has to survive a crash
of the executor, not of the machine, with which the jobs end as well. After that the ledger knows which leases had started, and they are
not started again (`contracts.messages.orders`). Facts stay in it until the ledger has them, so it is also the spool of a node whose bus
is away. The memory is the truth while the executor runs: a line that could not be written makes the file be rewritten. It is also
rewritten, with what is open only, at the start and when it has grown; a new file is synced if it contains facts.

What a lease runs (its command and environment, which may hold secrets) is forgotten with its end, before the ledger has that; the lines
that have it leave the file soon after (`clean`), and at the next start at the latest. So after the end of the last lease of a person
nothing of it is here, and an erasure, which is refused before that, has nothing to remove from nodes. The new file replaces the old one
atomically, so that a crash at any moment leaves one of the two.
"""

from __future__ import annotations

import errno
import os
from collections import deque

import msgspec

from headrace.contracts.facts import AnyFact, LeaseEndedV1, LeaseResumedV1, LeaseStartedV1, LeaseSuspendedV1
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.messages.orders import StartOrder
from headrace.contracts.values.ids import lease_id

REWRITE_AT = 4 * 1024 * 1024


class Open(msgspec.Struct, tag="open", tag_field="step"):
    """A lease on this node: about to be started, or as far as its facts say. `ladder`: it was told to stop with it, at `notified_at`.

    `boot`: the start of the machine in which it began; "" if unknown.
    """

    order: StartOrder
    started: bool = False
    suspended: bool = False
    ended: bool = False
    ladder: Ladder | None = None
    notified_at: int = msgspec.field(default=0, name="told_at")
    boot: str = ""


class StopOrdered(msgspec.Struct, frozen=True, tag="told", tag_field="step"):
    """The lease is about to be told to stop."""

    lease: str
    ladder: Ladder
    at: int


class Forgotten(msgspec.Struct, frozen=True, tag="forgotten", tag_field="step"):
    """The lease was never started, and the next order for it starts it."""

    lease: str


class FactStated(msgspec.Struct, frozen=True, tag="said", tag_field="step"):
    """A fact for the ledger."""

    fact: AnyFact


class Sending(msgspec.Struct, frozen=True, tag="sending", tag_field="step"):
    """The first `count` facts are about to be sent as one record behind the one with sequence `last`.

    The other fields are what is needed to make its bytes again; `level`: how the facts are encoded (`contracts.facts.levels`).
    """

    count: int
    last: int
    now: int
    as_of: int
    engine: str
    level: int = 1


class FactsStored(msgspec.Struct, frozen=True, tag="stored", tag_field="step"):
    """The ledger has the first `count` facts, in the record with this sequence."""

    count: int
    sequence: int


Step = Open | StopOrdered | Forgotten | FactStated | Sending | FactsStored
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Step] = msgspec.json.Decoder(Step)


class Journal:
    """The file at `path`. `open`: leases by id; `unsent`: facts in order; `sending`: what may have been sent.

    `last`: the node's last record.

    `found`: the file existed. `boot`: this start of the machine (`system.machine`).
    """

    def __init__(self, path: str, rewrite_at: int = REWRITE_AT, boot: str = "") -> None:
        self._path = path
        self._rewrite_at = rewrite_at
        self._boot = boot
        self.open: dict[str, Open] = {}
        self.unsent: deque[AnyFact] = deque()
        self.sending: Sending | None = None
        self.last = 0
        self.found = os.path.exists(path)
        self._stale = False
        self._read()
        self._descriptor = -1
        self._size = 0
        self._whole = True
        self._rewrite()

    def began(self, order: StartOrder) -> None:
        """Note a lease before the job is started. Raises `OSError`; then the job must not be started."""
        step = Open(order, boot=self._boot)
        self._append(step)
        self._fold(step)

    def is_of_another_boot(self, left: Open) -> bool:
        """Return whether the machine was surely restarted since the lease began."""
        return bool(left.boot and self._boot) and left.boot != self._boot

    def note_stop_order(self, lease: str, ladder: Ladder, at: int) -> None:
        """Note a ladder before a job is told to stop. Never raises."""
        self._take(StopOrdered(lease, ladder, at))

    def forgotten(self, lease: str) -> None:
        """Note that the lease was never started. Never raises."""
        self._take(Forgotten(lease))

    def note_fact(self, fact: AnyFact) -> None:
        """Note a fact before it is sent. Never raises: if the disk is full, the memory has it."""
        self._take(FactStated(fact))

    def sends(self, sending: Sending) -> None:
        """Note a record before it is sent. Never raises."""
        if sending != self.sending:
            self._take(sending)

    def stored(self, count: int, sequence: int) -> None:
        """Note that the ledger has the first `count` facts. Never raises."""
        self._take(FactsStored(count, sequence))
        if self._size > self._rewrite_at and len(self.unsent) < count + 1_000:
            self._try_to_rewrite()

    def clean(self) -> bool:
        """Rewrite the file if it contains what leases ran that are over; True if rewritten.

        Never raises: it is tried again the next time.
        """
        return self._stale and self._try_to_rewrite()

    def close(self) -> None:
        """Close the file; may be called more than once."""
        if self._descriptor >= 0:
            self.clean()
            os.close(self._descriptor)
            self._descriptor = -1

    def steps(self) -> list[Step]:
        """Return what is open, in as few steps as possible."""
        sending = [] if self.sending is None else [self.sending]
        return [FactsStored(0, self.last), *map(FactStated, self.unsent), *sending, *self.open.values()]

    # The fold

    def _fold(self, step: Step) -> None:
        if isinstance(step, FactStated):
            self.unsent.append(step.fact)
            self._fold_fact(step.fact)
        elif isinstance(step, Sending):
            self.sending = step
        elif isinstance(step, FactsStored):
            self._fold_stored(step)
        elif isinstance(step, Open):
            self.open[step.order.lease] = step
        elif isinstance(step, Forgotten):
            self._stale |= self.open.pop(step.lease, None) is not None
        elif step.lease in self.open:
            found = self.open[step.lease]
            found.ladder, found.notified_at = step.ladder, step.at

    def _fold_fact(self, fact: AnyFact) -> None:
        if not isinstance(fact, LeaseStartedV1 | LeaseEndedV1 | LeaseSuspendedV1 | LeaseResumedV1):
            return
        found = self.open.get(lease_id(fact.job, fact.attempt, fact.rank))
        if found is None:
            return
        if isinstance(fact, LeaseStartedV1):
            found.started = True
        elif isinstance(fact, LeaseEndedV1):
            found.ended, found.order = True, _without_texts(found.order)
            self._stale = True
        else:
            found.suspended, found.ladder = isinstance(fact, LeaseSuspendedV1), None

    def _fold_stored(self, step: FactsStored) -> None:
        for _ in range(min(step.count, len(self.unsent))):
            fact = self.unsent.popleft()
            if isinstance(fact, LeaseEndedV1):
                self.open.pop(lease_id(fact.job, fact.attempt, fact.rank), None)
        self.sending, self.last = None, max(self.last, step.sequence)

    # The file

    def _take(self, step: Step) -> None:
        self._fold(step)
        try:
            self._append(step)
        except OSError:
            self._whole = False

    def _append(self, step: Step) -> None:
        if not self._whole:  # what is missing in the file is in memory, and for `began` not even there
            self._rewrite()
            if not isinstance(step, Open):
                return
        line = _encoder.encode(step) + b"\n"
        self._whole = False
        written = os.write(self._descriptor, line)
        self._size += written
        if written != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._whole = True

    def _try_to_rewrite(self) -> bool:
        try:
            self._rewrite()
        except OSError:
            return False
        return True

    def _rewrite(self) -> None:
        """Replace the file. Facts that wait for the ledger are synced first: their former lines may have been on the disk for long."""
        fresh = f"{self._path}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(fresh, flags, 0o600)
        content = b"".join(_encoder.encode(step) + b"\n" for step in self.steps())
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(content)
            if self.unsent:
                os.fsync(descriptor)
            os.rename(fresh, self._path)
        except OSError:
            os.close(descriptor)
            raise
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._size, self._whole, self._stale = descriptor, len(content), True, False

    def _read(self) -> None:
        try:
            with open(self._path, "rb") as file:
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return
        for line in lines:
            try:
                step = _decoder.decode(line)
            except (msgspec.DecodeError, RecursionError):
                continue
            self._fold(step)


def _without_texts(order: StartOrder) -> StartOrder:
    """Return what is known of a lease that is over: which one it was, and what it held."""
    return StartOrder(
        lease=order.lease,
        job=order.job,
        attempt=order.attempt,
        rank=order.rank,
        replicas=order.replicas,
        granted=order.granted,
        devices=order.devices,
        amounts=order.amounts,
        command=(),
        account=order.account,
    )
