"""Format of an archive file: each record is a row, with its bytes, and with columns for queries.

Exact: `sequence`, `time` (the server's, nanoseconds), `subject`, `headers` and `payload` (bytes as stored), `digest` (of the payload).
Derived for queries: `writer`, `now`, `engine`, `as_of`, `cause`, and of its facts `kinds`, `tenants` and `jobs`. A record that cannot be
decoded (it is void) has the exact columns only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.bus.log import StoredMessage
from headrace.contracts.facts import fact_type
from headrace.contracts.facts.records import digest
from headrace.contracts.transport.codec import Malformed, decode_record
from headrace.contracts.transport.subjects import ledger_writer
from headrace.contracts.values.ids import IdError, split_job_key

_WORD = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("time", pa.timestamp("ns", "UTC"), nullable=False),
        pa.field("subject", _WORD, nullable=False),
        pa.field("headers", pa.binary(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("digest", pa.string(), nullable=False),
        pa.field("writer", _WORD),
        pa.field("now", pa.timestamp("us", "UTC")),
        pa.field("engine", _WORD),
        pa.field("as_of", pa.int64()),
        pa.field("cause", pa.string()),
        pa.field("kinds", pa.list_(pa.string())),
        pa.field("tenants", pa.list_(pa.string())),
        pa.field("jobs", pa.list_(pa.string())),
    ]
)
EXACT = StoredMessage._fields

GROUP_ROWS = 1_024
"""Records that are decoded together: reading one record decodes one group, and not the file."""

_YEARS_MAX = 2**62
"""Maximum in microseconds; a node may state any time, and a column of times has a limit."""


class TableError(ValueError):
    """The bytes are not a file of an archive; the text says why."""


def encode(records: Sequence[StoredMessage]) -> bytes:
    """A Parquet file of these records."""
    columns: dict[str, list[Any]] = {field.name: [] for field in SCHEMA}
    for record in records:
        for name, value in _row(record).items():
            columns[name].append(value)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns, schema=SCHEMA), sink, compression="zstd", row_group_size=GROUP_ROWS, version="2.6")
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def decode(data: bytes, first: int = 0, count: int | None = None) -> list[StoredMessage]:
    """The records in a file, exactly: all, or `count` from index `first` on. Raises `TableError`."""
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        last = file.metadata.num_rows if count is None else min(first + count, file.metadata.num_rows)
        groups = range(first // GROUP_ROWS, min(-(-last // GROUP_ROWS), file.metadata.num_row_groups))
        table = file.read_row_groups(list(groups), columns=list(EXACT)).slice(first - groups.start * GROUP_ROWS, last - first)
        if sorted(table.column_names) != sorted(EXACT):
            raise TableError(f"it does not have the columns {', '.join(EXACT)}")
        plain = {"subject": pa.string(), "time": pa.int64()}
        columns = (table.column(name).cast(plain.get(name, SCHEMA.field(name).type)) for name in EXACT)
        return [StoredMessage(*row) for row in zip(*(column.to_pylist() for column in columns), strict=True)]
    except (pa.ArrowException, OSError, TypeError, ValueError) as error:
        raise TableError(" ".join(str(error).split())[:200]) from error


def _row(record: StoredMessage) -> dict[str, Any]:
    exact = record._asdict() | {"digest": digest(record.payload)}
    columns: dict[str, Any] = dict.fromkeys(("writer", "now", "engine", "as_of", "cause", "kinds", "tenants", "jobs"))
    try:
        columns["writer"] = ledger_writer(record.subject)
        read = decode_record(record.payload)
    except (IdError, Malformed):
        return exact | columns
    jobs = {key for fact in read.facts for key in _jobs(fact)}
    return exact | {
        "writer": columns["writer"],
        "now": read.now if read.now < _YEARS_MAX else None,
        "engine": read.engine,
        "as_of": read.as_of if read.as_of < 2**63 else None,
        "cause": read.cause,
        "kinds": _sorted(fact_type(type(fact)) for fact in read.facts),
        "tenants": _sorted([*map(_tenant_of_job, jobs), *map(_tenant, read.facts)]),
        "jobs": _sorted(jobs),
    }


def _sorted(names: Iterable[Any]) -> list[str]:
    return sorted({str(name) for name in names} - {""})


def _jobs(fact: msgspec.Struct) -> Iterable[str]:
    """The jobs that a fact is about; those of a plan are a tuple of structs, in other facts a number."""
    job = getattr(fact, "job", "")
    if isinstance(job, str):
        yield job
    victims = getattr(fact, "victims", ())
    for victim in victims if isinstance(victims, tuple) else ():
        yield getattr(victim, "job", "")


def _tenant(fact: msgspec.Struct) -> str:
    """The tenant of a fact's document or name; empty if it has no tenant."""
    tenant = getattr(fact, "tenant", "")
    if not tenant:
        inner = (getattr(fact, name, None) for name in ("user", "group", "profile", "policy"))
        tenant = next((getattr(document, "tenant", "") for document in inner if isinstance(document, msgspec.Struct)), "")
    return tenant if isinstance(tenant, str) else getattr(tenant, "name", "")


def _tenant_of_job(key: str) -> str:
    try:
        return split_job_key(key)[0]
    except IdError:
        return ""
