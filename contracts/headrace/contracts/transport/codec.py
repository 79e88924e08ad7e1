"""Decoding and encoding of messages: the one place where bytes from outside are decoded.

The size is checked first, then msgspec checks types. Every error is a `Malformed` with one line that says where; deep nesting
included (msgspec raises `RecursionError`), so hostile bytes are refused and never end the process.
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
    CancelManyRequest,
    CancelRequest,
    JobSubmission,
    JobSubmissions,
    RequeueRequest,
)

T = TypeVar("T")
R = TypeVar("R", bound=Record)

SUBMISSION_BYTES_MAX = 1024 * 1024
MESSAGE_BYTES_MAX = 8 * 1024 * 1024
REASON_MAX = 300  # an error may quote the message, and goes into facts and logs

_SEVERAL = re.compile(rb'\s*\{\s*"jobs"\s*:')

_NO_LIST = re.compile(r"Expected `array`, got `str` - at `\$\.([^`]+)`")


class _UnreadRecord(Record, frozen=True, kw_only=True, gc=False):
    """A record whose facts are not decoded."""

    facts: tuple[msgspec.Raw, ...]  # type: ignore[assignment]


class _OfType(msgspec.Struct):
    type: str


_encoder = msgspec.json.Encoder()
_record_decoder = msgspec.json.Decoder(Record)
_unread_decoder = msgspec.json.Decoder(_UnreadRecord)
_type_decoder = msgspec.json.Decoder(_OfType)
_fact_decoder: msgspec.json.Decoder[AnyFact] = msgspec.json.Decoder(AnyFact)
_submission_decoder = msgspec.json.Decoder(JobSubmission)
_submissions_decoder = msgspec.json.Decoder(JobSubmissions)
_cancel_decoder = msgspec.json.Decoder(CancelRequest)
_cancel_many_decoder = msgspec.json.Decoder(CancelManyRequest)
_requeue_decoder = msgspec.json.Decoder(RequeueRequest)
_decoders: dict[object, msgspec.json.Decoder[object]] = {}


class Malformed(ValueError):
    """Bytes that do not decode; the message says what is wrong, and where."""


def encode(value: object) -> bytes:
    """The JSON of any struct of the contracts."""
    return _encoder.encode(value)


def decode_record(payload: bytes) -> Record:
    """The record in `payload`, with its facts in their current versions. Raises Malformed."""
    return upcast(decode_written(payload))


def decode_written(payload: bytes) -> Record:
    """The record in `payload`, with its facts in the versions in which they were written. Raises Malformed."""
    return _bounded(_record_decoder, payload)


def decode_some(payload: bytes, types: Container[str]) -> tuple[Record, tuple[str, ...]]:
    """The record with facts of these types only, and the types of all its facts in order; the others are not decoded. Raises Malformed."""
    unread = _bounded(_unread_decoder, payload)
    found = tuple(_decode(_type_decoder, fact).type for fact in unread.facts)
    facts = tuple(_decode(_fact_decoder, fact) for fact, of_type in zip(unread.facts, found, strict=True) if of_type in types)
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
        return (_decode(_submission_decoder, payload),)
    jobs = _decode(_submissions_decoder, payload).jobs
    if not 1 <= len(jobs) <= JOBS_MAX:
        raise Malformed(f"a submission is 1 to {JOBS_MAX} jobs, this has {len(jobs)}")
    return jobs


def decode_cancel(payload: bytes) -> CancelRequest:
    """The request in a message on `hr.cancel.…`; the message may be empty. Raises Malformed."""
    return _decode(_cancel_decoder, payload) if payload.strip() else CancelRequest()


def decode_cancel_many(payload: bytes) -> CancelManyRequest:
    """The request in a message on `hr.cancel.<tenant>.<user>.many`. Raises Malformed."""
    request = _decode(_cancel_many_decoder, payload)
    if not 1 <= len(request.jobs) <= CANCELS_MAX:
        raise Malformed(f"jobs: cancel 1 to {CANCELS_MAX} in one message, this has {len(request.jobs)}")
    return request


def decode_requeue(payload: bytes) -> RequeueRequest:
    """The request in a message on `hr.requeue.…`; the message may be empty. Raises Malformed."""
    return _decode(_requeue_decoder, payload) if payload.strip() else RequeueRequest()


def decode(payload: bytes, kind: type[T]) -> T:
    """Any other message (orders, queries, answers) as `kind`. Raises Malformed."""
    if len(payload) > MESSAGE_BYTES_MAX:
        raise Malformed(f"a message is at most {MESSAGE_BYTES_MAX} bytes, this has {len(payload)}")
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return _decode(decoder, payload)  # type: ignore[return-value]


def _bounded(decoder: msgspec.json.Decoder[R], payload: bytes) -> R:
    """The record in `payload` if it is within the bounds."""
    if len(payload) > RECORD_BYTES_MAX:
        raise Malformed(f"a record is at most {RECORD_BYTES_MAX} bytes, this has {len(payload)}")
    record = _decode(decoder, payload)
    if len(record.facts) > RECORD_FACTS_MAX:
        raise Malformed(f"a record is at most {RECORD_FACTS_MAX} facts, this has {len(record.facts)}")
    return record


def _decode(decoder: msgspec.json.Decoder[T], payload: bytes) -> T:
    try:
        return decoder.decode(payload)
    except RecursionError:
        raise Malformed("the JSON is nested too deeply") from None
    except UnicodeDecodeError:
        raise Malformed("the text is not UTF-8") from None
    except msgspec.DecodeError as error:
        raise Malformed(_one_line(_with_way_out(str(error)))) from None


def _with_way_out(text: str) -> str:
    """The error text; for one text in place of a list, a frequent mistake, with an example of a list."""
    found = _NO_LIST.fullmatch(text)
    return text if found is None else f'{found[1]}: write a list such as ["echo", "hello"], not one text'


def _one_line(text: str) -> str:
    """`text` as one line of a log: printable characters only, at most `REASON_MAX`."""
    printable = "".join(character if character.isprintable() else " " for character in text[:REASON_MAX])
    return printable if len(text) <= REASON_MAX else printable + "…"
