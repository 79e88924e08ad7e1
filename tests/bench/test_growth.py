"""What a fold and what reads beside it keep is bounded: after a day at a steady rate another hour adds nothing."""

from __future__ import annotations

from bench.growth import PARTS, grow
from bench.memory import BATCH, Tape
from headrace.contracts.transport.codec import decode_record
from headrace.contracts.values.durations import HOUR, MINUTE
from headrace.domain.fold.ledger import FoldedLedger
from headrace.domain.snapshots.snapshot import dump
from headrace.domain.state.state import ENDED_KEPT, IDS_REMEMBERED
from headrace.views.history import History
from headrace.views.job_index import JobIndex, jobs_of

EVERY = 10 * MINUTE
A_DAY = IDS_REMEMBERED + ENDED_KEPT


def test_ended_jobs_leave_after_an_hour_and_their_ids_after_a_day_so_that_a_fold_stops_growing():
    tape, reader = Tape(), FoldedLedger()
    for message in tape.law():
        reader.read(message)
    history, index = History(jobs_max=1_000), JobIndex(reader.state)
    start, sizes = tape.now, list[tuple[int, ...]]()
    batches = (A_DAY + 3 * HOUR) // EVERY
    for message in tape.lives(batches * 5 * BATCH, every=EVERY):
        record = reader.read(message)
        assert record == decode_record(message.payload)
        keys = jobs_of(record)
        index.note(record, keys)
        history.note(keys, message.sequence)
        if tape.now - start > A_DAY + (len(sizes) + 1) * HOUR:
            state = reader.state
            kept = len(state.jobs), len(state.answered), len(state.forgetting), len(index.seen), len(history.sequences)
            sizes.append((*kept, len(dump(state)) // 100_000))
    an_hour = HOUR // EVERY * BATCH
    assert len(sizes) >= 2
    assert sizes[0] == sizes[-1]
    assert sizes[0][0] <= an_hour + 2 * BATCH
    assert sizes[0][1] <= IDS_REMEMBERED // EVERY * BATCH + 2 * BATCH


def test_each_part_is_measured():
    assert {part: [row["part"] for row in grow(part, 0)] for part in PARTS} == {part: [] for part in PARTS}
