"""SUBMIT beside what admission has judged of it, over a bus that a test plays."""

from __future__ import annotations

import json
from base64 import b64encode
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.contracts.facts import WishesJudgedV1
from headrace.contracts.facts.records import Record
from headrace.contracts.transport.codec import encode
from headrace.nats_client.connection import Connection
from headrace.supervisor.nats.submissions import Loss, SubmissionsLost, check_none_lost, find_loss

NOT_FOUND = {"error": {"code": 404, "err_code": 10059, "description": "stream not found"}}
NO_MESSAGE = {"error": {"code": 404, "err_code": 10037, "description": "no message found"}}
JUDGED_AT, AFTER = "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"


class Bus:
    """Answers as JetStream does. `judged`: the last submission judged, None: no ledger; `submit`: (last, time of its first message)."""

    several = False

    def __init__(self, judged: int | None, submit: tuple[int, str] | None) -> None:
        self.judged, self.submit = judged, submit

    async def ask(self, subject: str, request: bytes = b"", *_: Any, **__: Any) -> Any:
        return SimpleNamespace(data=json.dumps(self.answer(subject.removeprefix("$JS.API."), request)).encode(), headers={})

    def answer(self, what: str, request: bytes) -> dict[str, Any]:
        if what == "STREAM.MSG.GET.LEDGER":
            if self.judged is None:
                return NOT_FOUND
            record = Record(by="admission", now=0, engine="t", as_of=0, facts=(WishesJudgedV1(through=self.judged),))
            return _message("hr.ledger.admission", 7, JUDGED_AT, encode(record)) if self.judged else NO_MESSAGE
        if self.submit is None:
            return NOT_FOUND
        last, first_came = self.submit
        if what == "STREAM.INFO.SUBMIT":
            return {"state": {"first_seq": 1, "last_seq": last}, "ts": JUDGED_AT}
        return _message("hr.submit.a.b.c.d", 1, first_came, b"{}") if first_came else NO_MESSAGE


def _message(subject: str, sequence: int, time: str, data: bytes) -> dict[str, Any]:
    return {"message": {"subject": subject, "seq": sequence, "time": time, "data": b64encode(data).decode()}}


@pytest.mark.parametrize(
    ("judged", "submit", "loss"),
    [
        (None, None, None),
        (0, None, None),
        (5, (5, JUDGED_AT), None),
        (5, (9, JUDGED_AT), None),
        (5, (5, ""), None),
        (5, None, Loss(5, None)),
        (5, (0, ""), Loss(5, 0)),
        (5, (4, AFTER), Loss(5, 4)),
        (5, (9, AFTER), Loss(5, 9)),
    ],
)
async def test_a_stream_that_is_gone_shorter_or_younger_than_what_was_judged_of_it_is_told(judged, submit, loss) -> None:
    assert await find_loss(cast("Connection", Bus(judged, submit))) == loss


@pytest.mark.parametrize(
    ("submit", "what"),
    [
        (None, "is gone, and submissions through 5 were judged"),
        ((2, JUDGED_AT), "ends at submission 2, and submissions through 5 were judged"),
        ((9, AFTER), "was made anew: submission 5 was judged before it came"),
    ],
)
async def test_it_is_said_in_one_line_with_what_to_type(submit, what) -> None:
    with pytest.raises(SubmissionsLost) as error:
        await check_none_lost(cast("Connection", Bus(5, submit)))
    assert str(error.value) == (
        f"stream SUBMIT {what}: its store was lost, with every submission that was not judged yet; "
        "`headrace repair` lets new submissions come behind those that were judged"
    )
