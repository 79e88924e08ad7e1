"""The services of an installation as they report themselves, and the servers that store the ledger."""

from __future__ import annotations

import msgspec

from headrace.contracts.messages.queries import ServiceView
from headrace.contracts.values.value import Value


class FollowerStatus(msgspec.Struct, frozen=True):
    """A follower's copy of a stream. `lag`: messages it is behind; `offline`: it is not heard."""

    name: str
    current: bool = False
    offline: bool = False
    lag: int = 0


class StreamStatus(msgspec.Struct, frozen=True):
    """The leader of a stream (empty: none), and its followers; a single server has neither."""

    leader: str = ""
    replicas: tuple[FollowerStatus, ...] | None = ()


class InstallationView(Value, frozen=True, kw_only=True):
    """`tip`: last record of the ledger. `services`: by name; None: no answer. `ledger`: the servers that store it; None if one does."""

    tip: int
    services: dict[str, ServiceView | None]
    ledger: StreamStatus | None = None
