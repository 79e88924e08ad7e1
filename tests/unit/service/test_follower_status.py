"""A service that follows the ledger is ready while it is near enough, and shows how far it is."""

from __future__ import annotations

from headrace.bus.log import LogUnavailable
from headrace.domain.fold.ledger import FoldedLedger
from headrace.health.health import Health
from headrace.service.follower_status import LAG_RECORDS, Following, Lag, watch_fold

NOW = 1_000_000_000


class Story:
    """A follower that goes as far as it is told."""

    def __init__(self):
        self.sequence, self.now, self.end, self.caught_up, self.away = 5, NOW, 5, True, False

    async def tip(self):
        if self.away:
            raise LogUnavailable("NATS is away")
        return self.end

    def following(self):
        return Following(lambda: self.sequence, lambda: self.now, self.tip, lambda: self.caught_up)


async def test_it_holds_while_it_follows_and_says_what_is_wrong_else():
    story = Story()
    lag = Lag(story.following(), lambda: NOW + 60_000_000)
    assert await lag.holds() == ""
    assert lag.seconds == 0.0
    story.end = 5 + LAG_RECORDS
    assert await lag.holds() == ""
    story.end += 1
    assert await lag.holds() == "1001 records and 60 s behind the ledger"
    story.now = NOW + 50_000_000
    assert (await lag.holds(), lag.records, lag.seconds) == ("", 1_001, 10.0)
    story.caught_up = False
    assert await lag.holds() == "still reading: 1001 records to go"
    story.away = True
    assert await lag.holds() == "the end of the ledger is unknown: NATS is away"


async def test_it_shows_how_far_it_is_and_what_was_void():
    story, health, ledger = Story(), Health("feed"), FoldedLedger()
    ledger.state.voids["node.gpu01"] = 2
    watch_fold(health, story.following(), ledger)
    story.end = 9
    text = (await health.text()).decode()
    for line in (
        "headrace_ledger_sequence_records 5.0",
        "headrace_ledger_lag_records 4.0",
        'headrace_void_records{writer="node.gpu01"} 2.0',
        "headrace_fold_jobs 0.0",
    ):
        assert line in text
    assert list((await health.readiness()).checks) == ["ledger"]
