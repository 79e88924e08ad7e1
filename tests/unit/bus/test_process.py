"""How a service ends and what its exit code says; with real signals and servers in the integration tests."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.bus import process
from headrace.bus.log import LogBroken, LogDiverged, LogRefused
from headrace.bus.loop import Fenced
from headrace.bus.process import BROKEN, DEPOSED, DOUBTED, FAILED, STOPPED, Service
from headrace.health.health import Readiness


class Connected:
    """A connection to nowhere."""

    def __init__(self) -> None:
        self.closed_for_good = asyncio.Event()
        self.closed = False

    async def close(self) -> None:
        self.closed = True


class Calls:
    """What `connect` was called with, and what it gave."""

    def __init__(self) -> None:
        self.arguments: list[tuple[str, str, str, str]] = []
        self.connection: Connected | None = None

    async def connect(self, url: str, user: str, password: str, *, name: str) -> Any:
        self.arguments.append((url, user, password, name))
        self.connection = Connected()
        return self.connection


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    recorded = Calls()
    monkeypatch.setattr(process, "connect", recorded.connect)
    return recorded


async def _serve(name: str, main: Callable[[Service], Awaitable[None]], environment: dict[str, str]) -> int:
    """The exit code of a process with one service."""
    return await process.serve(name, lambda services: main(services[0]), {name: environment})


ENVIRONMENT = {process.URL: "nats://there:4222", process.USER: "alloc", process.PASSWORD: "secret", process.DATA: "somewhere"}


async def test_a_service_is_not_ready_before_it_says_whether_it_has_read_the_ledger(calls: Calls) -> None:
    found = []

    async def main(service: Service) -> None:
        service.connection.is_connected = True
        found.append(await service.health.readiness())
        service.health.check(process.LEDGER, lambda: "")
        found.append(await service.health.readiness())

    await _serve("allocator", main, ENVIRONMENT)

    assert found == [
        Readiness(ready=False, role="active", checks={"nats": "", "ledger": "it is beginning"}),
        Readiness(ready=True, role="active", checks={"nats": "", "ledger": ""}),
    ]


async def test_a_service_finds_its_name_its_connection_and_its_data(calls: Calls) -> None:
    found: list[Service] = []

    async def main(service: Service) -> None:
        found.append(service)

    assert await _serve("allocator", main, ENVIRONMENT) == STOPPED
    assert calls.arguments == [("nats://there:4222", "alloc", "secret", "allocator")]
    assert [(service.name, service.connection, service.data) for service in found] == [
        ("allocator", calls.connection, Path("somewhere"))
    ]
    assert calls.connection is not None
    assert calls.connection.closed


async def test_two_services_of_a_process_have_a_login_and_a_name_each(calls: Calls) -> None:
    found: list[tuple[str, str, Path]] = []

    async def main(services: Sequence[Service]) -> None:
        found.extend((service.name, service.health.name, service.data) for service in services)

    feed = {process.USER: "feed", process.PASSWORD: "hidden", process.INSTANCE: "feed-standby"}
    assert await process.serve("both", main, {"allocator": ENVIRONMENT, "feed": feed}) == STOPPED
    assert calls.arguments == [
        ("nats://there:4222", "alloc", "secret", "allocator"),
        ("nats://127.0.0.1:4222", "feed", "hidden", "feed-standby"),
    ]
    assert found == [("allocator", "allocator", Path("somewhere")), ("feed-standby", "feed-standby", Path("data"))]


def test_a_variable_may_hold_for_one_service_of_a_process_only(tmp_path: Path) -> None:
    file = tmp_path / "feed.env"
    file.write_text("HEADRACE_NATS_PASSWORD=hidden\nHEADRACE_NATS_USER=other\n")
    environment = {
        process.URL: "nats://there:4222",
        process.USER: "everybody",
        "HEADRACE_ENVIRONMENT__FEED": str(file),
        "HEADRACE_NATS_USER__FEED": "feed",
    }
    feed, audit = dict(environment), dict(environment)
    assert (process.specialize(feed, "feed"), process.specialize(audit, "audit")) == ("", "")
    assert audit == environment
    assert feed == environment | {
        process.USER: "feed",
        process.PASSWORD: "hidden",
        process.ENVIRONMENT: str(file),
    }
    assert "gone cannot be read" in process.specialize({"HEADRACE_ENVIRONMENT__FEED": str(tmp_path / "gone")}, "feed")


def test_a_process_of_several_services_trusts_the_authority_that_their_own_environments_name() -> None:
    own = {"HEADRACE_DATA": "data"}
    process.trust_authority(own, [{}, {"HEADRACE_CA": "/tls/ca.pem"}, {"HEADRACE_CA": "/tls/ca.pem"}])
    assert own == {"HEADRACE_DATA": "data", "HEADRACE_CA": "/tls/ca.pem"}
    process.trust_authority(own, [{"HEADRACE_CA": "/another.pem"}])
    assert own["HEADRACE_CA"] == "/tls/ca.pem"


async def test_a_service_gets_one_more_connection_with_the_same_login(calls: Calls) -> None:
    async def main(service: Service) -> None:
        first = calls.connection
        second = await process.second_connection(service, "intake")
        assert (second is calls.connection, second is first) == (True, False)

    assert await _serve("admission", main, ENVIRONMENT) == STOPPED
    login = ("nats://there:4222", "alloc", "secret")
    assert calls.arguments == [(*login, "admission"), (*login, "admission-intake")]


async def test_without_an_environment_the_server_is_the_local_one_and_the_user_the_service(calls: Calls) -> None:
    async def main(_service: Service) -> None:
        return

    assert await _serve("feed", main, {}) == STOPPED
    assert calls.arguments == [("nats://127.0.0.1:4222", "feed", "", "feed")]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Fenced("x"), DEPOSED),
        (LogBroken("x"), BROKEN),
        (LogDiverged("x"), FAILED),
        (LogRefused("x"), FAILED),
        (RuntimeError("x"), FAILED),
    ],
)
async def test_each_end_has_its_exit_code(calls: Calls, error: Exception, code: int) -> None:
    async def main(_service: Service) -> None:
        raise error

    assert await _serve("allocator", main, {}) == code
    assert calls.connection is not None
    assert calls.connection.closed


async def test_a_broken_log_is_doubted_once_where_it_may_be_one_servers_copy_alone(calls: Calls) -> None:
    async def main(_service: Service) -> None:
        raise LogBroken("x")

    assert await _serve("allocator", main, {process.URL: "nats://a:1,nats://b:1,nats://c:1"}) == DOUBTED
    assert await _serve("allocator", main, {process.URL: "nats://a:1"}) == BROKEN


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_it_in_order(calls: Calls, number: signal.Signals) -> None:
    story: list[str] = []

    async def main(_service: Service) -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            story.append("tidied up")

    assert await _serve("allocator", main, {}) == STOPPED
    assert (story, calls.connection is not None and calls.connection.closed) == (["tidied up"], True)


async def test_being_thrown_out_by_the_server_is_a_failure(calls: Calls) -> None:
    async def main(service: Service) -> None:
        service.connection.closed_for_good.set()
        await asyncio.Event().wait()

    assert await _serve("allocator", main, {}) == FAILED


def test_settled_objects_are_not_walked_again_and_what_comes_after_them_seldom() -> None:
    before = gc.get_threshold()
    process.freeze_present_objects()
    frozen, after = gc.get_freeze_count(), gc.get_threshold()
    gc.unfreeze()
    gc.set_threshold(*before)

    young, old, oldest = after
    assert frozen > 0
    assert young * old * oldest == 2_000_000


def test_a_file_completes_the_environment_and_what_is_set_counts_before_it(tmp_path: Path) -> None:
    file = tmp_path / "feed.env"
    file.write_text("# of the feed\n\nHEADRACE_NATS_USER=feed\nHEADRACE_POSTGRES_DSN=postgresql://h/db?a=b&c=d\n")
    environment = {process.ENVIRONMENT: str(file), "HEADRACE_NATS_USER": "other"}
    assert process.complete_environment(environment) == ""
    assert environment == {
        process.ENVIRONMENT: str(file),
        "HEADRACE_NATS_USER": "other",
        "HEADRACE_POSTGRES_DSN": "postgresql://h/db?a=b&c=d",
    }
    assert process.complete_environment({}) == ""


def test_an_invalid_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "feed.env"
    file.write_text("A=1\nexport B\n")
    assert (
        process.complete_environment({process.ENVIRONMENT: str(file)})
        == f"HEADRACE_ENVIRONMENT: line 2 of {file} is not KEY=VALUE"
    )
    assert "gone cannot be read" in process.complete_environment({process.ENVIRONMENT: str(tmp_path / "gone")})
