from __future__ import annotations

import re

from headrace.accounting.storage.sql_statements import Migration, migrations, statements


def test_migrations_are_numbered_without_a_gap() -> None:
    assert [migration.version for migration in migrations()] == list(range(1, len(migrations()) + 1))
    assert migrations()[0].name == "books"


def test_a_migration_that_was_changed_has_another_digest() -> None:
    assert Migration(1, "a", "SELECT 1").digest != Migration(1, "a", "SELECT 2").digest
    assert re.fullmatch(r"[0-9a-f]{32}", migrations()[0].digest)


def test_statements_are_found_by_name_and_come_without_their_neighbours() -> None:
    loads = statements("load")
    assert loads["position"] == "SELECT sequence, digest, now FROM headrace.position"
    assert all("-- name:" not in text for text in loads.values())
