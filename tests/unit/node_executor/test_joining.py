"""An instance exchanges its code once, keeps what it gets, and gives up when that cannot be."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nats import errors

from headrace.contracts.messages.burst import JoinRequest
from headrace.contracts.messages.queries import Answer
from headrace.contracts.messages.tokens import Grant, TokenAnswer, TokenRole
from headrace.contracts.transport.codec import decode, encode
from headrace.identity.signing import SigningKeys
from headrace.node_executor import joining
from headrace.node_executor.arguments import PASSWORD, parse
from headrace.node_executor.joining import NotJoined, with_login


class FakeConnection:
    """Answers from a list; an exception is raised. `asked`: the requests, with their subjects."""

    answers: list[Any]
    asked: list[tuple[str, JoinRequest]]

    def __init__(self, _observer: object) -> None:
        """Nothing is opened."""

    async def open(self, address: object, name: str) -> None:
        """The server is there."""

    async def close(self) -> None:
        """It was never open."""

    async def ask(self, subject: str, payload: bytes, within: float) -> Any:
        self.asked.append((subject, decode(payload, JoinRequest)))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return type("Message", (), {"data": encode(answer)})


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> type[FakeConnection]:
    class Fresh(FakeConnection):
        answers: list[Any] = []
        asked: list[tuple[str, JoinRequest]] = []

    monkeypatch.setattr(joining, "Connection", Fresh)
    monkeypatch.setattr(joining, "AGAIN", 0.0)
    return Fresh


def settings(place: Path, role: TokenRole = TokenRole.INSTANCE, **options: str):
    code = SigningKeys(place / "keys").sign(Grant("t1", role, "", "cloud-1", 1, 2_000_000_000))
    arguments = ["run", "--name", "cloud-1", "--data", str(place), "--devices", "none", "--run-as", "self"]
    return parse([*arguments, *(part for item in options.items() for part in item)], {PASSWORD: code})


def granted(token: str) -> Answer:
    return Answer(sequence=1, body=msgspec.Raw(encode(TokenAnswer(token=token, id="t2", expires_at=9))))


async def test_a_code_is_exchanged_and_the_token_is_kept(bus: type[FakeConnection], tmp_path: Path) -> None:
    asking = settings(tmp_path)
    bus.answers = [errors.NoRespondersError(), granted("token")]
    first, again = await with_login(asking), await with_login(asking)
    assert (first.address.password, again.address.password) == ("token", "token")
    (subject, one), (_, other) = bus.asked
    assert subject == "hr.query.governance.join.instances.cloud-1"
    assert (one.code, one.nonce == other.nonce, len(one.nonce)) == (asking.address.password, True, 32)
    assert stat.S_IMODE((tmp_path / "login.json").stat().st_mode) == 0o600


async def test_a_node_with_a_token_exchanges_nothing(bus: type[FakeConnection], tmp_path: Path) -> None:
    plain = settings(tmp_path, TokenRole.NODE)
    assert await with_login(plain) is plain
    assert bus.asked == []


async def test_a_code_that_was_used_is_not_shown_again(bus: type[FakeConnection], tmp_path: Path) -> None:
    bus.answers = [Answer(sequence=1, code="NOT_ALLOWED", error="the code was used")]
    with pytest.raises(NotJoined, match="the code was used"):
        await with_login(settings(tmp_path))


async def test_without_an_answer_in_time_the_instance_gives_up(bus: type[FakeConnection], tmp_path: Path) -> None:
    bus.answers = [errors.NoRespondersError()] * 3
    limited = settings(tmp_path)
    limited = limited._replace(limits_of_instance=limited.limits_of_instance._replace(join_within=1e-9))
    with pytest.raises(NotJoined, match="no login within"):
        await with_login(limited)
