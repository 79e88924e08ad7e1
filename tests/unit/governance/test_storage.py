"""From when on no job is admitted because too little storage is left."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.messages.tokens import StorageReport
from headrace.governance.storage import is_scarce, reporting, trouble

GIB = 1024**3


def report(used, limit=100):
    return StorageReport(used=used * GIB, limit=limit * GIB)


@pytest.mark.parametrize(
    ("used", "was", "is_now"),
    [(0, False, False), (89, False, False), (90, False, True), (85, True, True), (84, True, False), (85, False, False)],
)
def test_it_is_scarce_from_90_percent_on_until_it_is_below_85(used, was, is_now):
    assert is_scarce(report(used), was=was) is is_now


def test_a_server_without_a_limit_is_never_scarce():
    assert not is_scarce(report(90, 0), was=True)


def test_it_is_stated_when_it_becomes_scarce_and_when_it_is_not_any_more(site):
    site.append_facts(f.InstallationLevelV1(level=2, release="0.2.0"))
    stated = []
    for used in (50, 90, 95, 86, 84, 86):
        facts = reporting(report(used))(site.state, 0).facts
        stated.append([(fact.scarce, fact.used // GIB, fact.limit // GIB) for fact in facts])
        if facts:
            site.append_facts(*facts)
    assert stated == [[], [(True, 90, 100)], [], [], [(False, 84, 100)], []]


def test_below_level_2_nothing_is_stated(site):
    assert reporting(report(99))(site.state, 0).facts == ()


def test_the_status_says_so_with_the_way_out(site):
    assert trouble(site.state, report(91)) == ""
    site.append_facts(f.StorageStatedV1(scarce=True, used=1, limit=1))
    assert trouble(site.state, report(91)) == (
        "the streams take 91.0 of 100.0 GiB of a NATS server's storage: no job is admitted until it is below 85 %; make room with "
        "`headrace audit export`, `headrace archive check` and `headrace archive purge --keep 30d`, or give the server a larger disk"
    )
    assert trouble(site.state, None).startswith("the streams take more than 90 % of a NATS server's storage")
