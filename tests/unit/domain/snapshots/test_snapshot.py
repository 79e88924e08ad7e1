"""The whole state as bytes: what comes back is what was, other releases are understood, and damage is told."""

from __future__ import annotations

import random
import zlib
from hashlib import sha256

import msgspec
import pytest

from headrace.contracts.documents import model as d
from headrace.contracts.facts.admission import Dependency
from headrace.contracts.facts.levels import LEVEL
from headrace.domain.snapshots import state_schema
from headrace.domain.snapshots.snapshot import MAGIC, SnapshotError, copy_of, dump, load
from headrace.domain.state import capacity
from headrace.domain.state.quota import policy_scope
from headrace.domain.state.state import State
from tests.unit.domain.site import Site, gpus, place, policy
from tests.unit.domain.snapshot import differences, kept, snapshot


def site() -> Site:
    """Jobs that wait, hold, yield, are waited for, and tried already."""
    made = Site(policy(reservation=gpus(2), limit=gpus(4)), policy("ops", reservation=gpus(2), priority=3))
    made.node("n1")
    made.node("n2", count=3)
    made.run("a", place("n1", 0), labels={"b": "1", "a": "2"})
    made.run("b", place("n2", 0, 1), queue="ops/two", preemptible=False)
    made.admit("c", "dev/half", after=(Dependency(job="default.ann.a"),))
    victim = made.run("v", place("n1", 1))
    made.order(made.admit("p", "ops/one"), (victim,), place("n1", 1))
    made.stop(victim)
    made.leave(made.run("d", place("n2", 2)), requeue="failed")
    return made


def opened(data: bytes) -> list:
    return msgspec.msgpack.decode(zlib.decompress(data[len(MAGIC) + 32 :]))


def sealed(body: list, magic: bytes = MAGIC) -> bytes:
    packed = zlib.compress(msgspec.msgpack.encode(body))
    return magic + sha256(packed).digest() + packed


@pytest.mark.parametrize("again", [lambda state: load(dump(state)), copy_of], ids=["load(dump)", "copy_of"])
def test_what_comes_back_is_what_was(again):
    state = site().state

    back = again(state)

    assert differences(snapshot(back), snapshot(state)) == []
    assert kept(back) == kept(state)
    assert back.jobs["default.ann.a"].policy is back.policies["default", "dev"]
    assert set(map(id, back.jobs.values())).isdisjoint(map(id, state.jobs.values()))
    assert dump(back) == dump(state)


def test_what_all_jobs_have_in_common_comes_back_be_it_the_default_or_not():
    made = Site(policy())
    for name in ("a", "b"):
        job = made.admit(name)
        job.preemptible, job.beyond, job.retries_used, job.exit_code, job.message = False, True, 1, 0, "again"

    back = load(dump(made.state))

    assert [
        (
            job.preemptible,
            job.beyond,
            job.retries_used,
            job.exit_code,
            type(job.exit_code),
            job.message,
            job.reason,
            job.attempt,
        )
        for job in back.jobs.values()
    ] == [(False, True, 1, 0, int, "again", "", 0)] * 2


def test_an_empty_state_comes_back_empty():
    assert differences(snapshot(load(dump(State()))), snapshot(State())) == []


def test_a_decision_tried_and_undone_leaves_the_same_bytes():
    made = site()
    before = dump(made.state)
    job, hall = made.state.jobs["default.ann.c"], made.state.pools["hall"]
    spot = place("n2", 2)
    policy_scope(job.policy, "elsewhere")
    capacity.take(made.state, job, hall, spot)
    capacity.give_back(made.state, job, hall, spot)
    assert dump(made.state) == before


def test_a_field_of_a_later_release_is_dropped_and_one_of_an_earlier_takes_its_default():
    state = site().state
    classes, whole, batches = opened(dump(state))
    job_class = next(number for number, (name, _) in enumerate(classes) if name == "jobs.JobRecord")
    classes[job_class][1][classes[job_class][1].index("losses")] = "mood"
    state.jobs["default.ann.a"].losses = 4

    back = load(sealed([classes, whole, batches]))

    assert back.jobs["default.ann.a"].losses == 0
    assert differences(snapshot(back), snapshot(state)) == ["/jobs/default.ann.a/losses: 0 is not 4"]


def test_a_class_of_a_later_release_is_dropped_with_the_field_that_names_it():
    state = site().state
    classes, whole, batches = opened(dump(state))
    number = len(classes)
    classes.append(["moods.Mood", ["colour"]])
    batches.append([number, 1, [[1, "blue"]]])
    state_class = next(at for at, (name, _) in enumerate(classes) if name == "state.State")
    classes[state_class][1].append("mood")
    next(batch for batch in batches if batch[0] == state_class)[2].append([6, number, [1, 0]])

    assert differences(snapshot(load(sealed([classes, whole, batches]))), snapshot(state)) == []


def test_a_field_that_has_to_be_there_is_missed_by_name():
    classes, whole, batches = opened(dump(site().state))
    fields = next(fields for name, fields in classes if name == "jobs.JobRecord")
    fields[fields.index("digest")] = "mood"
    with pytest.raises(SnapshotError, match=r"it says nothing of jobs\.JobRecord\.digest, which has no default"):
        load(sealed([classes, whole, batches]))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"", "not a snapshot of Headrace", id="nothing"),
        pytest.param(b"PK\x03\x04", "not a snapshot of Headrace", id="another file"),
        pytest.param(MAGIC.replace(b"1", b"2") + b"x" * 40, "another release", id="another form"),
        pytest.param(MAGIC, "damaged or cut short", id="only its first line"),
        pytest.param(sealed(["x"]), "cannot be read by this release", id="another content"),
        pytest.param(sealed([[], [1, 5], []]), "it holds no state", id="no state"),
    ],
)
def test_what_is_not_a_snapshot_is_refused_with_the_reason(data, why):
    with pytest.raises(SnapshotError, match=why):
        load(data)


def test_one_flipped_bit_or_a_missing_end_is_always_noticed():  # Q4
    data, chance = dump(site().state), random.Random(7)
    for _ in range(200):
        at = chance.randrange(len(data))
        damaged = data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        with pytest.raises(SnapshotError):
            load(damaged)
        with pytest.raises(SnapshotError):
            load(data[:at])


def test_what_is_not_declared_is_refused_by_name():
    state = site().state
    state.tenants["x"] = object()
    with pytest.raises(state_schema.UnknownSort, match=r"builtins\.object stands in the state"):
        dump(state)


def test_documents_come_back_whole():
    state = site().state
    back = load(dump(state))
    assert back.policies["default", "dev"].document == state.policies["default", "dev"].document
    assert isinstance(back.pools["hall"].document, d.Pool)


def test_one_of_a_level_that_this_release_does_not_read_is_refused():
    state = State()
    state.terms.level = LEVEL + 1
    why = f"it was taken at level {LEVEL + 1} of the facts, and this release reads up to {LEVEL}"
    with pytest.raises(SnapshotError, match=why):
        load(dump(state))
