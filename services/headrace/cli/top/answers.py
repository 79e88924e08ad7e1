"""What `headrace top` reads of answers of `/v1/overview` and `/v1/overview:watch`.

Strategy: an answer about thousands of GPUs is a megabyte, and little of it has changed since the one before. Fields that are not drawn are
passed over, and a part is decoded only when it is drawn, and not again while its bytes are the same (`Parts`).
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

_NOTHING = msgspec.Raw()


class Event(msgspec.Struct):
    """One event in words."""

    sequence: str = "0"
    time: str = ""
    text: str = ""
    about: str = ""
    rule: str = ""


class GpuKey(msgspec.Struct):
    """Amounts of one key of a pool or of a policy."""

    key: str = ""
    capacity: str = "0"
    used: str = "0"
    free: str = "0"
    kept: str = "0"
    unusable: str = "0"
    reservation: str = "0"
    borrowed: str = "0"
    limit: str = ""


class Pool(msgspec.Struct):
    """A pool and what is used of it."""

    name: str = ""
    keys: tuple[GpuKey, ...] = ()


class Queue(msgspec.Struct):
    """A queue, its jobs, and the amounts of its policy."""

    name: str
    policy: str
    profile: str
    running: str = "0"
    pending: str = "0"
    scopes: tuple[GpuKey, ...] = ()


class Nodes(msgspec.Struct):
    """Names and states of nodes, in columns."""

    name: msgspec.Raw = _NOTHING
    state: msgspec.Raw = _NOTHING


class Devices(msgspec.Struct):
    """Columns of devices, and who holds which of them."""

    node: msgspec.Raw = _NOTHING
    used: msgspec.Raw = _NOTHING
    kept: msgspec.Raw = _NOTHING
    unfit: msgspec.Raw = _NOTHING
    shares: msgspec.Raw = _NOTHING


class Shares(msgspec.Struct):
    """Columns of what jobs hold of devices: places in the columns of devices and of holders, and the amount."""

    device: list[int] = []
    holder: list[int] = []
    units: list[int] = []


class Holders(msgspec.Struct):
    """Columns of jobs that hold devices."""

    tenant: msgspec.Raw = _NOTHING
    queue: msgspec.Raw = _NOTHING
    user: msgspec.Raw = _NOTHING
    id: msgspec.Raw = _NOTHING
    display_name: msgspec.Raw = _NOTHING


class Overview(msgspec.Struct):
    """The installation at one moment."""

    sequence: str = "0"
    time: str = ""
    pools: msgspec.Raw = _NOTHING
    queues: msgspec.Raw = _NOTHING
    nodes: Nodes = msgspec.field(default_factory=Nodes)
    devices: Devices = msgspec.field(default_factory=Devices)
    holders: Holders = msgspec.field(default_factory=Holders)


class Loads(msgspec.Struct):
    """For each device whether it is held and was nearly unused for ten minutes."""

    idle: msgspec.Raw = _NOTHING


class Change(msgspec.Struct):
    """One answer of the stream."""

    sequence: str = "0"
    overview: Overview | None = None
    loads: Loads | None = None
    events: tuple[Event, ...] = ()


class Part(Generic[T]):
    """A part of answers, decoded again only if its bytes are others than last time."""

    def __init__(self, kind: Any) -> None:
        self._decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)
        self._bytes = b""
        self._value: T = msgspec.json.decode(b"[]" if kind is not Shares else b"{}", type=kind)
        self._empty = self._value

    def of(self, raw: msgspec.Raw) -> T:
        """The value; that of a part that is not in the answer is empty."""
        present = bytes(raw)
        if present != self._bytes:
            self._value, self._bytes = self._decoder.decode(present) if present else self._empty, present
        return self._value


decode_change = msgspec.json.Decoder(Change).decode
decode_overview = msgspec.json.Decoder(Overview).decode
