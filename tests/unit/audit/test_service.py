"""The process of *audit*, put together; and what its environment may say."""

from __future__ import annotations

import msgspec
import pytest

from headrace.audit import service
from headrace.audit.snapshot_policy import EVERY, FACTS, FACTS_LEAST, SnapshotPolicy
from headrace.bus.log import LogRefused, LogUnavailable
from headrace.contracts.messages.audit import VerifyReport
from headrace.contracts.messages.queries import ServiceView
from headrace.contracts.values.durations import DAY, HOUR, MINUTE
from tests.unit.service.bus import Bus, running, until


@pytest.fixture
def bus(monkeypatch):
    """One with a hall, on which the process looks for its ledger and its snapshots."""
    one = Bus()
    one.hall("n1")
    monkeypatch.setattr(service, "JetStreamLog", one.log)
    monkeypatch.setattr(service.Snapshots, "over", one.over)
    monkeypatch.setattr(service, "AUDIT_NICE", 0)
    return one


async def test_it_takes_snapshots_of_what_it_follows_and_says_so(bus, monkeypatch, tmp_path):
    monkeypatch.setenv(service.SNAPSHOT_FACTS, "4")
    async with running(service.main(bus.service("audit", tmp_path))):
        await until(lambda: len(bus.stated("audit")) == 1)
        answer = await bus.ask("hr.query.audit.>", "hr.query.audit.status.acme.ann")
    view = msgspec.json.decode(answer.body, type=ServiceView)
    assert (view.service, view.detail["snapshot"], view.detail["snapshots_taken"]) == ("audit", 2, 1)


async def test_it_comes_up_while_the_snapshots_alone_are_away(bus, monkeypatch, tmp_path):
    async def away():
        raise LogUnavailable("nobody leads them")

    monkeypatch.setattr(bus.objects, "names", away)
    monkeypatch.setattr("headrace.service.snapshots.RETRY", 0)
    monkeypatch.setenv(service.SEAL_EVERY, "1ms")
    async with running(service.main(bus.service("audit", tmp_path))):
        await until(lambda: len(bus.stated("audit")) == 1)
    (seal,) = bus.stated("audit")
    assert (seal.number, seal.first, seal.last) == (1, 1, 2)


async def test_it_seals_what_it_follows_and_says_what_it_has_found(bus, monkeypatch, tmp_path):
    monkeypatch.setenv(service.SEAL_EVERY, "1ms")
    async with running(service.main(bus.service("audit", tmp_path))):
        await until(lambda: len(bus.stated("audit")) == 1)
        (seal,) = bus.stated("audit")
        assert (seal.number, seal.first, seal.last) == (1, 1, 2)
        report = msgspec.json.decode(
            (await bus.ask("hr.query.audit.>", "hr.query.audit.verified.acme.ann")).body, type=VerifyReport
        )
        answer = await bus.ask("hr.query.audit.>", "hr.query.audit.status.acme.ann")
    detail = msgspec.json.decode(answer.body, type=ServiceView).detail
    assert (report.found, report.key, detail["findings"]) == (0, seal.key, 0)


def test_how_often_stands_in_the_environment():
    assert service.seal_every({service.SEAL_EVERY: "2m"}) == 2 * MINUTE
    assert service.seal_every({}) == MINUTE
    assert [service.archive_every({service.ARCHIVE_EVERY: each}) for each in ("", "6h", "off")] == [DAY, 6 * HOUR, 0]
    assert service.snapshot_policy({}) == SnapshotPolicy(FACTS, EVERY, FACTS_LEAST)
    assert service.snapshot_policy({service.SNAPSHOT_FACTS: "5", service.SNAPSHOT_EVERY: "2m"}) == SnapshotPolicy(
        5, 2 * MINUTE, FACTS_LEAST
    )


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        (service.SNAPSHOT_FACTS, "many", "'many' is not a number of facts"),
        (service.SNAPSHOT_FACTS, "0", "'0' is not a number of facts"),
        (service.SNAPSHOT_EVERY, "often", "HEADRACE_SNAPSHOT_EVERY: "),
    ],
)
def test_what_the_environment_cannot_mean_is_told(name, value, says):
    with pytest.raises(LogRefused, match=says):
        service.snapshot_policy({name: value})


def test_an_invalid_pace_of_seals_is_told():
    with pytest.raises(LogRefused, match="HEADRACE_SEAL_EVERY: "):
        service.seal_every({service.SEAL_EVERY: "often"})


def test_an_invalid_wait_for_the_archive_is_told():
    with pytest.raises(LogRefused, match="HEADRACE_ARCHIVE_EVERY: .*, or off"):
        service.archive_every({service.ARCHIVE_EVERY: "often"})
