"""Decoding of records and submissions, and, from `encoding`, of all other messages: what a process that reads facts needs.

The size is checked first, then msgspec checks types.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import TypeVar

import msgspec

from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.records import RECORD_BYTES_MAX, RECORD_FACTS_MAX, Record
from headrace.contracts.facts.upcasters import upcast
from headrace.contracts.messages.submissions import (
    CANCELS_MAX,
    JOBS_MAX,
    SUBMISSION_BYTES_MAX,
    CancelManyRequest,
    CancelRequest,
    JobSubmission,
    JobSubmissions,
    RequeueRequest,
)
from headrace.contracts.transport.encoding import MESSAGE_BYTES_MAX, Malformed, decode, decode_with, encode

__all__ = [
    "MESSAGE_BYTES_MAX",
    "Malformed",
    "decode",
    "decode_cancel",
    "decode_cancel_many",
    "decode_record",
    "decode_requeue",
    "decode_some",
    "decode_submit",
    "decode_written",
    "encode",
]

R = TypeVar("R", bound=Record)

_SEVERAL = re.compile(rb'\s*\{\s*"jobs"\s*:')


class _UnreadRecord(Record, frozen=True, kw_only=True, gc=False):
    """A record whose facts are not decoded."""

    facts: tuple[msgspec.Raw, ...]  # type: ignore[assignment]


class _OfType(msgspec.Struct):
    type: str


_record_decoder = msgspec.json.Decoder(Record)
_unread_decoder = msgspec.json.Decoder(_UnreadRecord)
_type_decoder = msgspec.json.Decoder(_OfType)
_fact_decoder: msgspec.json.Decoder[AnyFact] = msgspec.json.Decoder(AnyFact)
_submission_decoder = msgspec.json.Decoder(JobSubmission)
_submissions_decoder = msgspec.json.Decoder(JobSubmissions)
_cancel_decoder = msgspec.json.Decoder(CancelRequest)
_cancel_many_decoder = msgspec.json.Decoder(CancelManyRequest)
_requeue_decoder = msgspec.json.Decoder(RequeueRequest)


def decode_record(payload: bytes) -> Record:
    """The record in `payload`, with its facts in their current versions. Raises Malformed."""
    return upcast(decode_written(payload))


def decode_written(payload: bytes) -> Record:
    """The record in `payload`, with its facts in the versions in which they were written. Raises Malformed."""
    return _bounded(_record_decoder, payload)


def decode_some(payload: bytes, types: Container[str]) -> tuple[Record, tuple[str, ...]]:
    """The record with facts of these types only, and the types of all its facts in order; the others are not decoded. Raises Malformed."""
    unread = _bounded(_unread_decoder, payload)
    found = tuple(decode_with(_type_decoder, fact).type for fact in unread.facts)
    facts = tuple(
        decode_with(_fact_decoder, fact) for fact, of_type in zip(unread.facts, found, strict=True) if of_type in types
    )
    record = Record(
        by=unread.by,
        now=unread.now,
        engine=unread.engine,
        as_of=unread.as_of,
        prev=unread.prev,
        cause=unread.cause,
        trace=unread.trace,
        facts=facts,
    )
    return upcast(record), found


def decode_submit(payload: bytes) -> tuple[JobSubmission, ...]:
    """The jobs in a message on `hr.submit.…`: one job, or `{"jobs": [...]}`. Raises Malformed."""
    if len(payload) > SUBMISSION_BYTES_MAX:
        raise Malformed(f"a submission is at most {SUBMISSION_BYTES_MAX} bytes, this has {len(payload)}")
    if _SEVERAL.match(payload) is None:
        return (decode_with(_submission_decoder, payload),)
    jobs = decode_with(_submissions_decoder, payload).jobs
    if not 1 <= len(jobs) <= JOBS_MAX:
        raise Malformed(f"a submission is 1 to {JOBS_MAX} jobs, this has {len(jobs)}")
    return jobs


def decode_cancel(payload: bytes) -> CancelRequest:
    """The request in a message on `hr.cancel.…`; the message may be empty. Raises Malformed."""
    return decode_with(_cancel_decoder, payload) if payload.strip() else CancelRequest()


def decode_cancel_many(payload: bytes) -> CancelManyRequest:
    """The request in a message on `hr.cancel.<tenant>.<user>.many`. Raises Malformed."""
    request = decode_with(_cancel_many_decoder, payload)
    if not 1 <= len(request.jobs) <= CANCELS_MAX:
        raise Malformed(f"jobs: cancel 1 to {CANCELS_MAX} in one message, this has {len(request.jobs)}")
    return request


def decode_requeue(payload: bytes) -> RequeueRequest:
    """The request in a message on `hr.requeue.…`; the message may be empty. Raises Malformed."""
    return decode_with(_requeue_decoder, payload) if payload.strip() else RequeueRequest()


def _bounded(decoder: msgspec.json.Decoder[R], payload: bytes) -> R:
    """The record in `payload` if it is within the bounds."""
    if len(payload) > RECORD_BYTES_MAX:
        raise Malformed(f"a record is at most {RECORD_BYTES_MAX} bytes, this has {len(payload)}")
    record = decode_with(decoder, payload)
    if len(record.facts) > RECORD_FACTS_MAX:
        raise Malformed(f"a record is at most {RECORD_FACTS_MAX} facts, this has {len(record.facts)}")
    return record
