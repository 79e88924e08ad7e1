"""`apply` is total, and knows every fact there is."""

from pathlib import Path
from typing import get_args

import pytest

from headrace.contracts.facts import AnyFact
from headrace.contracts.transport.codec import decode_record
from headrace.contracts.values.durations import HOUR, SECOND
from headrace.domain.fold.apply import HANDLERS, apply
from headrace.domain.model.job_states import JobState
from headrace.domain.state.state import ENDED_KEPT, IDS_REMEMBERED, State
from tests.unit.domain.hall import Hall

GOLDEN = sorted((Path(__file__).parents[3] / "golden/facts").glob("*.json"))


def test_every_fact_of_the_union_has_a_handler_and_no_other_has():
    assert set(HANDLERS) == set(get_args(AnyFact))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_any_fact_may_come_at_any_time_and_raises_nothing(path):
    record = decode_record(path.read_bytes())
    apply(State(), record, 1)
    busy = Hall(devices=4)
    busy.policy("p", reservation=1)
    busy.run("p", "j", ("n1", 0, 1))
    apply(busy.state, record, busy.sequence + 1)
    apply(busy.state, record, busy.sequence + 2)
    assert busy.state.sequence == busy.sequence + 2


def test_time_is_the_running_maximum():
    hall = Hall()
    hall.later(60)
    hall.append_facts("governance")
    late = hall.now
    hall.later(-30)
    hall.append_facts("governance")
    assert hall.state.now == late


def test_an_ended_job_leaves_after_an_hour_and_its_id_is_remembered_for_25():
    hall = Hall()
    hall.policy("p")
    job = hall.run("p", "j", ("n1", 0, 1))
    hall.end(job)
    from headrace.contracts.facts import JobEndedV1

    hall.append_facts("allocator", JobEndedV1(job=job.key, attempt=1, state="succeeded", cause="exited", exit_code=0))
    hall.later(ENDED_KEPT // SECOND - 1)
    hall.append_facts("governance")
    assert job.key in hall.state.jobs
    hall.later(1)
    hall.append_facts("governance")
    assert (job.key in hall.state.jobs, hall.state.answered[job.key].state) == (False, JobState.SUCCEEDED)
    hall.later(IDS_REMEMBERED // SECOND)
    hall.append_facts("governance")
    assert hall.state.answered == {}
    assert 24 * HOUR < IDS_REMEMBERED
