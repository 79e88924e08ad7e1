"""A part is waited for as long as it makes progress, and given up with its own last words."""

from __future__ import annotations

import asyncio
import socket
import time
from types import SimpleNamespace
from unittest.mock import AsyncMock

import pytest
from msgspec import Raw

from headrace.bus.log import LogUnavailable, Message
from headrace.contracts.messages.queries import Answer, ServiceView
from headrace.contracts.transport.codec import encode
from headrace.supervisor.processes import readiness
from headrace.supervisor.processes.log_file import LogFile
from headrace.supervisor.processes.readiness import DEATHS_MAX, AddressInUse, Inspector, NotReady, is_well, listens, until_ready
from tests.patience import PATIENCE


@pytest.fixture
def child(tmp_path):
    """A child as `until_ready` sees it."""
    log = LogFile(tmp_path / "feed.log")
    yield SimpleNamespace(
        program=SimpleNamespace(name="feed", is_forked=False), log=log, restarts=0, state="running", exit_code=None, trouble=""
    )
    log.close()


async def test_a_part_is_asked_until_it_says_yes(child):
    answers = iter([None, 3, 7, True])

    async def ask():
        return next(answers)

    await until_ready(child, ask)
    assert list(answers) == []


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        (b'{"event": "failed", "reason": "the keys are gone"}\n', "the keys are gone"),
        (b'{"event": "failed"}\n', "failed"),
        (b"Address already in use\n", "Address already in use"),
        (b"", "it says nothing, and ends with exit code 1"),
    ],
)
async def test_a_part_that_dies_again_and_again_is_given_up_with_its_last_words(child, output, reason):
    async def ask():
        child.restarts += 1
        return False

    child.exit_code = 1
    child.log.write(output)
    with pytest.raises(NotReady) as caught:
        await until_ready(child, ask)
    assert str(caught.value) == f"feed does not start: {reason}; more in {child.log.path}"


async def test_a_part_that_may_be_forked_and_dies_for_a_while_is_ready_when_it_lives(child, monkeypatch):
    monkeypatch.setattr(readiness, "DIES_FOR", PATIENCE)

    async def ask():
        child.restarts += 1
        return child.restarts > 2 * DEATHS_MAX

    child.program.is_forked = True
    await until_ready(child, ask)
    assert child.restarts == 2 * DEATHS_MAX + 1


async def test_a_part_that_may_be_forked_and_dies_for_longer_is_given_up(child, monkeypatch):
    monkeypatch.setattr(readiness, "DIES_FOR", 0.2)

    async def ask():
        child.restarts += 1
        return False

    child.program.is_forked = True
    began = time.monotonic()
    with pytest.raises(NotReady, match="feed does not start"):
        await until_ready(child, ask)
    assert time.monotonic() - began >= 0.2


async def test_a_part_that_gave_up_by_itself_is_not_waited_for(child):
    async def ask():
        child.state = "given-up"
        return False

    with pytest.raises(NotReady, match="feed does not start"):
        await until_ready(child, ask)


CANNOT_LISTEN = b"final pre-worker listener init for listener 'http' failed: cannot listen() errno=98\n"


async def test_a_gateway_that_runs_on_without_its_port_is_given_up_at_once(child):
    async def ask():
        child.log.write(CANNOT_LISTEN)
        return False

    with pytest.raises(AddressInUse, match=r"feed does not start: final pre-worker .* cannot listen\(\) errno=98; more in "):
        await until_ready(child, ask)


async def test_what_an_earlier_run_wrote_about_its_port_is_not_taken_for_this_runs(child):
    answers = iter([False, True])

    async def ask():
        return next(answers)

    child.log.write(CANNOT_LISTEN)
    await until_ready(child, ask)
    assert list(answers) == []


async def test_a_part_that_runs_and_makes_no_progress_is_given_up(child):
    async def ask():
        return 5

    with pytest.raises(NotReady, match=r"feed runs, but has not answered for 0\.01 s"):
        await until_ready(child, ask, patience=0.01)


async def test_a_port_has_a_listener_or_not():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert await listens(port) is True
    assert await listens(port) is False


@pytest.mark.parametrize(
    ("answer", "well"),
    [
        (b"HTTP/1.1 200 OK\r\nx-who: a\r\nserver: headrace\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nX-Who:a\r\n\r\n", True),
        pytest.param(b"HTTP/1.1 200 OK\r\nx-who: b\r\n\r\n", False, id="another's"),
        (b"HTTP/1.1 200 OK\r\n\r\n", False),
        (b"HTTP/1.1 503 Service Unavailable\r\nx-who: a\r\n\r\n", False),
        (b"HTTP/1.1 200 OK\r\n", False),
        (b"nonsense\r\n\r\n", False),
        (b"", False),
    ],
)
async def test_a_server_is_well_when_it_says_so_and_is_the_one_that_is_meant(answer, well):
    async def respond(reader, writer):
        await reader.readline()
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert await is_well(port, "/healthz", ("x-who", "a")) is well
    server.close()
    await server.wait_closed()
    assert await is_well(port, "/healthz", ("x-who", "a")) is False


class FakeCore:
    """The operator's connection: one answer to everything."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    async def ask(self, subject, within):
        self.asked.append(subject)
        await asyncio.sleep(0)
        if isinstance(self.answer, Exception):
            raise self.answer
        return SimpleNamespace(data=self.answer)


@pytest.mark.parametrize(
    ("answer", "caught_up"),
    [
        (encode(Answer(sequence=10)), True),
        (encode(Answer(sequence=11)), True),
        (encode(Answer(sequence=9)), 9),
        (b"nonsense", None),
        (LogUnavailable("nobody"), None),
    ],
)
async def test_a_service_has_caught_up_when_its_answer_is_not_older_than_the_ledger_was(answer, caught_up):
    core = FakeCore(answer)
    assert await Inspector(core).caught_up("feed", 10) is caught_up
    assert core.asked == ["hr.query.feed.status.default.operator"]


RISING = {"level": 1, "newest": 3, "held_back": ("it is not known yet who is there",)}


@pytest.mark.parametrize(
    ("views", "asked"),
    [
        ([RISING, {"level": 1, "newest": 3}, {"level": 3, "newest": 3}], 3),
        ([RISING, {"level": 1, "newest": 3, "held_back": ("it is not known yet who is there", "node n1 reads level 1")}], 2),
        ([{"level": 3, "newest": 3}], 1),
        ([None], 1),
    ],
    ids=["it rises", "a node holds it back", "nothing to raise", "no answer"],
)
async def test_the_level_is_waited_for_while_it_rises_and_no_longer(monkeypatch, views, asked):
    monkeypatch.setattr(readiness, "LOOK_EVERY", 0.001)
    answers = iter([governance_is(view) for view in views])
    core = FakeCore(None)
    core.ask = AsyncMock(side_effect=lambda *_, **__: SimpleNamespace(data=next(answers)))
    await Inspector(core).until_level_rose()
    assert core.ask.await_count == asked
    assert list(answers) == []


async def test_a_level_that_does_not_rise_is_given_up():
    core = FakeCore(governance_is(RISING))
    await Inspector(core).until_level_rose(within=-1.0)
    assert core.asked == ["hr.query.governance.status.default.operator"]


def governance_is(view):
    """An answer with its view; one that cannot be read without."""
    if view is None:
        return b"nonsense"
    return encode(Answer(sequence=9, body=Raw(encode(ServiceView(service="governance", folded=9, now=1, engine="e", **view)))))


@pytest.mark.parametrize(("last", "spoken"), [(None, False), (99, False), (100, True), (LogUnavailable("away"), False)])
async def test_a_node_has_spoken_when_its_last_record_is_not_older_than_its_start(last, spoken, monkeypatch):
    asked = []

    class FakeLedger:
        async def last(self, subject):
            asked.append(subject)
            if isinstance(last, Exception):
                raise last
            return None if last is None else Message(7, subject, last, b"")

    monkeypatch.setattr(readiness, "JetStreamLog", lambda *_: FakeLedger())
    assert await Inspector(None).has_written("gpu01", 100) is spoken
    assert asked == ["hr.ledger.node.gpu01"]
