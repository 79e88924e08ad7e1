"""Both logs have the same face."""

from __future__ import annotations

import inspect

import pytest

from headrace.bus.log import Log, LogBroken, LogError, LogReader, LogRefused, LogUnavailable, WrongLast
from headrace.bus.memory import MemoryLog, MemoryReader
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.jetstream_reader import JetStreamReader


def _face(kind: type) -> dict[str, list[str]]:
    public = {name: member for name, member in vars(kind).items() if not name.startswith("_")}
    return {
        name: list(inspect.signature(member.fget if isinstance(member, property) else member).parameters)
        for name, member in public.items()
    }


@pytest.mark.parametrize(
    ("protocol", "twin"), [(Log, MemoryLog), (Log, JetStreamLog), (LogReader, MemoryReader), (LogReader, JetStreamReader)]
)
def test_a_twin_has_every_method_of_the_protocol_with_the_same_arguments(protocol: type, twin: type) -> None:
    promised, kept = _face(protocol), _face(twin)
    assert {name: kept.get(name) for name in promised} == promised


def test_every_trouble_with_a_log_is_a_log_error() -> None:
    assert all(issubclass(kind, LogError) for kind in (LogUnavailable, LogRefused, WrongLast, LogBroken))
