"""An append states its condition; what the server says becomes a sequence, or an error of its own kind."""

from __future__ import annotations

import msgspec
import pytest

from headrace.nats_client.append import append
from headrace.nats_client.errors import LogError, LogFull, LogRefused, LogUnavailable, NoStorage, WrongLast
from tests.unit.nats_client.wired import answered, wired


async def appended(answer: object, expected: int | None = 3) -> tuple[int, dict[str, str] | None]:
    """The sequence, and the headers of what was sent, if the server says that."""
    connection = await wired()
    connection.answers["hr.ledger.x"] = answered(answer if isinstance(answer, bytes) else msgspec.json.encode(answer))
    sequence = await append(connection, "hr.ledger.x", b"payload", expected)
    ((subject, payload, _, headers),) = connection.sent
    assert (subject, payload) == ("hr.ledger.x", b"payload")
    return sequence, headers


def fault(code: int, text: str = "why") -> dict[str, object]:
    return {"error": {"code": 400, "err_code": code, "description": text}}


@pytest.mark.parametrize(
    ("expected", "headers"),
    [
        (None, None),
        (0, {"Nats-Expected-Last-Subject-Sequence": "0"}),
        (7, {"Nats-Expected-Last-Subject-Sequence": "7"}),
    ],
)
async def test_an_append_states_its_condition_in_the_headers_and_nothing_else(
    expected: int | None, headers: dict[str, str] | None
) -> None:
    assert await appended({"stream": "LEDGER", "seq": 8}, expected) == (8, headers)


@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (fault(10071), WrongLast, r"^hr.ledger.x: why \(10071\)$"),
        (fault(10164), LogUnavailable, r"^hr.ledger.x: why \(10164\)$"),
        (fault(10008), LogUnavailable, r"\(10008\)$"),
        (fault(10023), LogUnavailable, r"\(10023\)$"),
        (fault(10076), LogUnavailable, r"\(10076\)$"),
        (fault(10054), LogRefused, r"\(10054\)$"),
        (fault(99999), LogRefused, r"\(99999\)$"),
        (fault(10077, "maximum bytes exceeded"), LogFull, r"^hr.ledger.x: maximum bytes exceeded \(10077\)$"),
        (fault(10047), NoStorage, "^why$"),
        (
            fault(10077, "write /srv/1.blk: no space left on device"),
            NoStorage,
            r"^NATS cannot write to its disk \(no space left on device\): nothing is accepted until",
        ),
        ({"seq": 8, "duplicate": True}, LogRefused, "^hr.ledger.x: NATS took it for the repetition of another message"),
        ({}, LogUnavailable, "^hr.ledger.x: the acknowledgement has no sequence$"),
        (b"nonsense", LogUnavailable, "^hr.ledger.x: the acknowledgement cannot be read"),
    ],
)
async def test_each_refusal_of_the_server_has_its_kind(answer: object, kind: type[LogError], text: str) -> None:
    with pytest.raises(kind, match=text) as raised:
        await appended(answer)
    assert type(raised.value) is kind


@pytest.mark.parametrize(
    ("text", "last"), [("wrong last sequence: 12", 12), ("wrong last sequence: 0", 0), ("something new", None)]
)
async def test_who_was_wrong_about_the_last_message_learns_its_sequence(text: str, last: int | None) -> None:
    with pytest.raises(WrongLast) as raised:
        await appended(fault(10071, text))
    assert raised.value.last == last
