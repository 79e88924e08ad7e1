"""Nothing is purged unless it is archived, behind every reader, and covered by a snapshot that can be loaded."""

from __future__ import annotations

import pytest

from headrace.archive.retention import RetentionStatus, objections

GOOD = RetentionStatus(tip=100, archived=90, readers={"accounting": 95, "reader x": 90}, snapshot=90)


def test_what_is_kept_in_every_other_way_may_go():
    assert objections(90, GOOD) == []


@pytest.mark.parametrize(
    ("standing", "reasons"),
    [
        (GOOD._replace(tip=80), ["the ledger ends at record 80: 90 has not been written"]),
        (GOOD._replace(archived=89), ["the archive ends at record 89: `headrace audit export` brings it up to date"]),
        (
            GOOD._replace(readers={"feed": 89, "accounting": None}),
            [
                "accounting does not say how far it has read: `headrace status` looks at it",
                "feed has read up to record 89 only: wait for it",
            ],
        ),
        (
            GOOD._replace(snapshot=None),
            ["no snapshot of the fold can be loaded by this release: the next one is taken automatically as the ledger grows"],
        ),
        (
            GOOD._replace(snapshot=89),
            ["the newest snapshot that can be loaded is of record 89: purge up to there, or wait for the next"],
        ),
    ],
)
def test_every_reason_against_it_is_told(standing, reasons):
    assert objections(90, standing) == reasons
