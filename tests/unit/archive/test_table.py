"""A file of the archive gives back every record exactly, and can be asked by any query engine."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.archive import table
from headrace.archive.table import TableError, decode, encode
from headrace.bus.log import StoredMessage
from headrace.contracts.facts.records import digest
from headrace.contracts.transport.codec import decode_record
from tests.unit.archive.conftest import JOB

STORED = st.builds(
    StoredMessage,
    sequence=st.integers(1, 2**62),
    subject=st.sampled_from(("hr.ledger.allocator", "hr.ledger.node.gpu01", "odd \ufffd")),
    time=st.integers(0, 2**62),
    headers=st.binary(max_size=20),
    payload=st.binary(max_size=40)
    | st.just(b'{"by":"allocator","now":99999999999999999999,"engine":"x","as_of":1,"facts":[]}'),
)


@given(st.lists(STORED, min_size=1, max_size=5))
def test_every_record_comes_back_exactly(records):
    assert decode(encode(records)) == records


def test_every_fact_that_was_ever_published_is_archived_with_its_jobs():
    written = [path.read_bytes() for path in sorted((Path(__file__).parents[2] / "golden" / "facts").glob("*.json"))]
    records = [
        StoredMessage(n, f"hr.ledger.{decode_record(payload).by}", n, b"", payload) for n, payload in enumerate(written, 1)
    ]
    data = encode(records)
    assert decode(data) == records
    columns = pq.read_table(pa.BufferReader(data), columns=["kinds", "jobs"]).to_pydict()
    jobs = {kinds[0]: jobs for kinds, jobs in zip(columns["kinds"], columns["jobs"], strict=True)}
    assert [len(jobs[kind]) for kind in ("preemption.ordered.v1", "preemption.settled.v1", "pool.applied.v1")] == [2, 1, 0]


@pytest.mark.parametrize(("first", "count"), [(0, 7), (3, 1), (2, 2), (4, 9), (0, None), (5, None)])
def test_a_part_of_a_file_is_read_alone(monkeypatch, first, count):
    monkeypatch.setattr(table, "GROUP_ROWS", 2)
    records = [StoredMessage(n, "hr.ledger.allocator", n, b"", b"%d" % n) for n in range(1, 8)]
    assert decode(encode(records), first, count) == records[first : None if count is None else first + count]


@pytest.mark.parametrize("data", [b"", b"PAR1", b"PAR1" + bytes(200) + b"PAR1"])
def test_other_bytes_are_not_a_table(data):
    with pytest.raises(TableError):
        decode(data)


def test_duckdb_reads_the_whole_archive_and_its_columns_for_people(stream, archived):
    query = f"""SELECT sequence, epoch_ns(time), month, subject, headers, payload, digest, writer, kinds, tenants, jobs
        FROM read_parquet('{archived}/ledger/*/*.parquet', hive_partitioning = true) ORDER BY sequence"""
    with duckdb.connect() as asking:
        rows = asking.sql(query).fetchall()
    exact = [
        (each.sequence, each.time, each.subject, each.headers, each.payload, digest(each.payload)) for each in stream.stored
    ]
    assert [(*row[:2], *row[3:7]) for row in rows] == exact
    assert [(row[2], *row[7:]) for row in rows] == [
        ("2026-09", "governance", ["tenant.deleted.v1"], [], []),
        ("2026-10", "governance", ["user.deleted.v1"], ["acme"], []),
        ("2026-10", "allocator", ["job.ended.v1"], ["acme"], [JOB]),
        ("2026-10", "node.gpu01", None, None, None),
        ("2026-11", "allocator", [], [], []),
        ("2026-11", "governance", ["tenant.deleted.v1"], [], []),
    ]
