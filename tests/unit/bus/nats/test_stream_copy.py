"""Which streams there are is believed once the servers have agreed; that copies come back is shown with real servers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.bus.log import LogUnavailable
from headrace.bus.nats import stream_copy
from headrace.bus.nats.stream_copy import durable_streams


class Servers:
    """They answer with one after the other, and with the last of them from then on."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.answers = list(answers)

    async def ask(self, _subject: str, within: float) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(data=json.dumps(answer).encode())


def stream(name: str, storage: str = "file", leader: str | None = None) -> dict[str, Any]:
    return {"config": {"name": name, "storage": storage}} | ({} if leader is None else {"cluster": {"leader": leader}})


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_copy, "LIST_AGAIN", 0)


async def test_streams_in_memory_are_not_among_them() -> None:
    servers = Servers({"streams": [stream("SUBMIT"), stream("FEED", "memory"), stream("LEDGER")]})
    assert await durable_streams(servers) == ("LEDGER", "SUBMIT")  # type: ignore[arg-type]


async def test_servers_that_have_not_agreed_yet_are_asked_again() -> None:
    servers = Servers(
        LogUnavailable("no answer"),
        {"error": {"err_code": 10008, "description": "JetStream system temporarily unavailable"}},
        {"streams": [stream("LEDGER", leader="headrace-1")], "missing": ["SUBMIT"]},
        {"streams": [stream("LEDGER", leader="headrace-1"), stream("SUBMIT", leader="")]},
        {"streams": [stream("LEDGER", leader="headrace-1"), stream("SUBMIT", leader="headrace-2")]},
    )
    assert await durable_streams(servers) == ("LEDGER", "SUBMIT")  # type: ignore[arg-type]
    assert len(servers.answers) == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"streams": [stream("LEDGER", leader="")], "missing": ["SUBMIT"]}, "no leader of LEDGER, SUBMIT: are most"),
        ({"error": {"description": "not now"}}, "do not say which streams there are: not now"),
        (LogUnavailable("no answer"), "no answer"),
    ],
)
async def test_a_stream_without_a_leader_is_not_left_out_in_silence(answer: Any, why: str) -> None:
    with pytest.raises(LogUnavailable, match=why):
        await durable_streams(Servers(answer), patience=-1)  # type: ignore[arg-type]
