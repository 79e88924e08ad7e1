from __future__ import annotations

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.facts import NodeCordonedV1, WishesJudgedV1
from headrace.contracts.facts.records import RECORD_BYTES_MAX, RECORD_FACTS_MAX, Record
from headrace.contracts.messages.orders import Heartbeat
from headrace.contracts.messages.submissions import CANCELS_MAX, CancelManyRequest, CancelRequest, JobSubmission, RequeueRequest
from headrace.contracts.transport import codec, encoding
from headrace.contracts.transport.codec import Malformed

JOB = "01kgz5v0q8x4m2c7b9n3d6f1ha"
RECORD = Record(by="admission", now=1, engine="0.1.0", as_of=7, facts=(WishesJudgedV1(through=3),))
SUBMISSION = JobSubmission(id=JOB, command=("true",))


def decode_all(payload: bytes):
    """Every fact, one after the other."""
    return codec.decode_some(payload, frozenset({"wishes.judged.v1", "node.cordoned.v1"}))


HOSTILE = {
    "nothing": b"",
    "no JSON": b"hello",
    "another type": b"[1, 2]",
    "null": b"null",
    "cut short": codec.encode(RECORD)[:-2],
    "no UTF-8": b'{"by": "\xff", "id": "\xff"}',
    "half a surrogate pair": b'{"by": "\\ud800", "id": "\\ud800"}',
    "two values": b"{} {}",
    "not a number": b'{"now": NaN, "priority": NaN}',
    "infinite": b'{"now": 1e999, "priority": 1e999}',
    "deep under an unknown name": b'{"deep":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep under a known name": b'{"facts":' + b"[" * 100_000 + b', "command":' + b"[" * 100_000,
    "deep mappings": b'{"a":' * 100_000,
    "a number of 5,000 digits": b'{"now": ' + b"9" * 5_000 + b', "priority": ' + b"9" * 5_000 + b"}",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    "decode", [codec.decode_record, decode_all, codec.decode_submit, lambda payload: codec.decode(payload, Heartbeat)]
)
def test_hostile_bytes_are_refused_in_one_line(name, decode):
    with pytest.raises(Malformed) as refused:
        decode(HOSTILE[name])
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) <= encoding.REASON_MAX + 1


@given(st.binary(max_size=200))
def test_random_bytes_are_decoded_or_refused(payload):
    decoders = (
        codec.decode_record,
        decode_all,
        codec.decode_submit,
        codec.decode_cancel,
        codec.decode_cancel_many,
        codec.decode_requeue,
    )
    for decode in decoders:
        with contextlib.suppress(Malformed):
            decode(payload)


def test_a_record_comes_back_as_it_was():
    assert codec.decode_record(codec.encode(RECORD)) == RECORD


def test_a_record_may_carry_fields_of_a_newer_writer():
    payload = (
        b'{"by":"a","now":1,"engine":"9","as_of":0,"new":{"x":1},"facts":[{"type":"wishes.judged.v1","through":3,"new":1}]}'
    )
    assert codec.decode_record(payload).facts == (WishesJudgedV1(through=3),)


def test_of_a_record_only_the_facts_that_are_asked_for_are_decoded():
    unread = b'{"type":"node.cordoned.v1","author":7}'  # which is malformed
    facts = b'[%b,{"type":"wishes.judged.v1","through":3}]'
    payload = b'{"by":"a","now":1,"engine":"9","as_of":0,"prev":"p","cause":"c","trace":"t","facts":' + facts + b"}"
    record, types = codec.decode_some(payload % unread, frozenset({"wishes.judged.v1"}))
    known = {"by": "a", "now": 1, "engine": "9", "as_of": 0, "prev": "p", "cause": "c", "trace": "t"}
    assert record == Record(facts=(WishesJudgedV1(through=3),), **known)
    assert types == ("node.cordoned.v1", "wishes.judged.v1")
    with pytest.raises(Malformed, match="author"):
        decode_all(payload % unread)
    with pytest.raises(Malformed, match="type"):
        codec.decode_some(payload % b'{"author":"x"}', frozenset())


def test_an_unknown_fact_is_refused():
    payload = b'{"by":"a","now":1,"engine":"9","as_of":0,"facts":[{"type":"job.beamed.v1"}]}'
    with pytest.raises(Malformed, match=r"job\.beamed\.v1"):
        codec.decode_record(payload)


@pytest.mark.parametrize("now", [2**53, -(2**53), 10**30])
def test_a_number_that_other_readers_would_lose_digits_of_is_refused(now):
    with pytest.raises(Malformed, match=r"\$\.now"):
        codec.decode_record(b'{"by":"a","engine":"9","as_of":0,"facts":[],"now":%d}' % now)


def test_a_record_is_bounded_in_bytes_and_in_facts():
    large = Record(
        by="a", now=1, engine="9", as_of=0, facts=(NodeCordonedV1(author="a.b", node="n", reason="x" * RECORD_BYTES_MAX),)
    )
    for decode in (codec.decode_record, decode_all):
        with pytest.raises(Malformed, match="at most 524288 bytes"):
            decode(codec.encode(large))
    many = Record(by="a", now=1, engine="9", as_of=0, facts=(WishesJudgedV1(through=1),) * (RECORD_FACTS_MAX + 1))
    for decode in (codec.decode_record, decode_all):
        with pytest.raises(Malformed, match="at most 1000 facts, this has 1001"):
            decode(codec.encode(many))


@pytest.mark.parametrize("head", [b'{"jobs":', b'{ "jobs" :', b'\n{\r\n\t "jobs":'])
def test_a_submission_is_one_job_or_several_however_it_is_spaced(head):
    one = codec.encode(SUBMISSION)
    assert codec.decode_submit(one) == (SUBMISSION,)
    assert codec.decode_submit(head + b"[" + one + b"," + one + b"]}") == (SUBMISSION, SUBMISSION)


def test_a_submission_is_bounded_in_bytes_and_in_jobs():
    with pytest.raises(Malformed, match="at most 1048576 bytes"):
        codec.decode_submit(b" " * (codec.SUBMISSION_BYTES_MAX + 1))
    for count in (0, 1_001):
        jobs = b",".join([codec.encode(SUBMISSION)] * count)
        with pytest.raises(Malformed, match=f"1 to 1000 jobs, this has {count}"):
            codec.decode_submit(b'{"jobs":[' + jobs + b"]}")


def test_an_unknown_key_in_a_submission_is_named():
    with pytest.raises(Malformed, match="unknown field `comand`"):
        codec.decode_submit(b'{"id":"x","comand":["true"],"command":["true"]}')


def test_a_complaint_neither_grows_with_what_it_quotes_nor_breaks_the_line():
    with pytest.raises(Malformed) as refused:
        codec.decode_submit(msgspec.json.encode({"id": "x", "command": [], "a\nb" + "c" * 100_000: 1}))
    assert "a b" in str(refused.value)
    assert len(str(refused.value)) == encoding.REASON_MAX + 1


@pytest.mark.parametrize("payload", [b"", b"{}", b" "])
def test_a_cancel_or_requeue_needs_no_words(payload):
    assert (codec.decode_cancel(payload), codec.decode_requeue(payload)) == (CancelRequest(), RequeueRequest())


def test_a_cancel_or_requeue_may_say_why():
    assert codec.decode_cancel(b'{"reason":"typo"}') == CancelRequest(reason="typo")
    assert codec.decode_cancel_many(b'{"jobs":["a","b"],"reason":"typo"}') == CancelManyRequest(jobs=("a", "b"), reason="typo")
    assert codec.decode_requeue(b'{"reason":"slow"}') == RequeueRequest(reason="slow")


def test_any_other_message_is_bounded_too():
    beat = Heartbeat(node="n", at=1, running=0, last_record=0)
    assert codec.decode(codec.encode(beat), Heartbeat) == beat
    with pytest.raises(Malformed, match="at most 8388608 bytes"):
        codec.decode(b" " * (codec.MESSAGE_BYTES_MAX + 1), Heartbeat)


@pytest.mark.parametrize("count", [0, CANCELS_MAX + 1])
def test_one_message_cancels_as_many_jobs_as_a_record_tells_of(count):
    with pytest.raises(codec.Malformed, match=f"^jobs: cancel 1 to {CANCELS_MAX} in one message, this has {count}$"):
        codec.decode_cancel_many(encode_jobs(count))


def encode_jobs(count):
    return codec.encode(CancelManyRequest(jobs=("a",) * count))
