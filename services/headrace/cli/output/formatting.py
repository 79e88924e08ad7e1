"""Values as text for people: amounts in their units (R1), local time; and as JSON, with times in ISO 8601."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from headrace.contracts.messages.explanation import KeyNeed, UnusableView
from headrace.contracts.messages.queries import JobView, PoolKeyView, ScopeView
from headrace.contracts.values.amounts import CPU, GPU, MEMORY, format_amount
from headrace.contracts.values.durations import SECOND, format_duration, format_time

_MOMENTS = frozenset(
    {
        "admitted_at",
        "ended_at",
        "granted_at",
        "started_at",
        "last_heard",
        "expected_start",
        "at",
        "now",
        "since",
        "start",
        "until",
        "before_now",
        "after_now",
    }
)
_AMOUNTS = {"gpu_free": GPU, "cpu": CPU, "cpu_free": CPU, "memory": MEMORY, "memory_free": MEMORY}


def local(microseconds: int | None) -> str:
    """`2026-11-21 08:00:00` in local time; "" for 0 or None."""
    if not microseconds:
        return ""
    return datetime.fromtimestamp(microseconds // SECOND, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def ago(microseconds: int, now: int | None = None) -> str:
    """`12s ago`; "" for 0."""
    if not microseconds:
        return ""
    span = max(0, (time.time_ns() // 1_000 if now is None else now) - microseconds)
    return f"{rough(span)} ago"


def rough(span: int) -> str:
    """A duration to the second, in its two largest units: `1h30m`, `2d4h`."""
    if span < SECOND:
        return "0s"
    whole = format_duration(span - span % SECOND)
    units = [index for index, character in enumerate(whole) if character.isalpha()]
    return whole[: units[1] + 1] if len(units) > 2 else whole


def gpus(view: JobView) -> str:
    """GPUs of all replicas of a job."""
    units = view.request.get(GPU, 0) * view.replicas
    return format_amount(GPU, units) if units else ""


def amounts(request: Mapping[str, int]) -> str:
    """Amounts as `gpu 0.5, cpu 4`."""
    return ", ".join(f"{key} {format_amount(key, value)}" for key, value in sorted(request.items()))


def plain(value: object) -> object:
    """Any answer as JSON values; amounts are text as people write them, times are ISO 8601 text or null."""
    if isinstance(value, KeyNeed | ScopeView | PoolKeyView | UnusableView):
        return {
            name: format_amount(value.key, field) if isinstance(field, int) and name not in _MOMENTS else _field(name, field)
            for name, field in _fields(value)
        }
    if isinstance(value, msgspec.Struct):
        return {name: _field(name, field) for name, field in _fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _field(str(name), field) for name, field in value.items()}
    if isinstance(value, tuple | list):
        return [plain(child) for child in value]
    return value


def as_json(value: object) -> str:
    """JSON text of `plain`."""
    return json.dumps(plain(value), indent=2, ensure_ascii=False)


def _fields(value: msgspec.Struct) -> list[tuple[str, object]]:
    return [(name, getattr(value, name)) for name in value.__struct_fields__]


def _field(name: str, value: object) -> object:
    if isinstance(value, int) and name in _MOMENTS:
        return format_time(value) if value else None
    if isinstance(value, int) and name in _AMOUNTS:
        return format_amount(_AMOUNTS[name], value)
    if isinstance(value, Mapping) and name in ("request", "amounts", "used", "limit"):
        return {key: format_amount(key, amount) if isinstance(amount, int) else amount for key, amount in value.items()}
    return plain(value)
