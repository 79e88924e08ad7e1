from __future__ import annotations

import re

import pytest

from headrace.accounting.books import rows
from headrace.accounting.books.rollups import NodeSumRow, SumRow
from headrace.accounting.books.tariffs import PriceRow, TariffRow
from headrace.accounting.storage.sql_statements import migrations
from headrace.contracts.facts.records import RECORD_FACTS_MAX

TABLES: dict[str, tuple[str, ...]] = {
    "records": rows.RecordRow._fields,
    "facts": rows.FactRow._fields,
    "jobs": rows.JobRow._fields,
    "attempts": rows.ATTEMPT_COLUMNS,
    "leases": rows.LEASE_COLUMNS,
    "unserved": rows.UnservedRow._fields,
    "suspensions": rows.SuspensionRow._fields,
    "kept": rows.KeptRow._fields,
    "days": ("day", *SumRow._fields[1:]),
    "hours": ("hour", *SumRow._fields[1:]),
    "node_hours": NodeSumRow._fields,
    "tariffs": TariffRow._fields,
    "prices": PriceRow._fields,
    "victims": rows.VictimRow._fields,
    "reservations": rows.ReservationRow._fields,
    "capacity": rows.CapacityRow._fields,
    "nodes": rows.NodeRow._fields,
}


@pytest.mark.parametrize("table", TABLES)
def test_a_row_has_the_columns_of_its_table_in_their_order(table: str) -> None:
    schema = "".join(migration.text for migration in migrations())
    body = re.search(rf"CREATE TABLE headrace\.{table} \((.*?)\n\)(?: WITH .*)?;", schema, re.DOTALL)
    assert body is not None
    columns = re.findall(r"^ {4}([a-z_]+) [a-z]", body[1], re.MULTILINE)
    for more in re.findall(rf"ALTER TABLE headrace\.{table}\s(.*?);", schema, re.DOTALL):
        columns += re.findall(r"ADD COLUMN ([a-z_]+) ", more)
    assert tuple(columns) == TABLES[table]


def test_the_number_of_a_fact_has_room_for_every_place_in_a_record() -> None:
    assert rows.PLACES >= RECORD_FACTS_MAX


def test_text_without_nul_stays_as_it_is() -> None:
    assert rows.plain("a\0b") == "a\ufffdb"
    assert rows.plain("añb") == "añb"
    assert rows.plain_map({"k\0": "v\0"}) == {"k\ufffd": "v\ufffd"}
