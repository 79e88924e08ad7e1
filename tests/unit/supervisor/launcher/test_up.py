"""What `up` does when it cannot: nothing is left behind. That it works is shown by the integration tests, with everything real."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from unittest.mock import AsyncMock

import msgspec
import pytest

from headrace.bus.log import LogUnavailable
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import Installation
from headrace.supervisor.launcher import up as up_module
from headrace.supervisor.launcher.up import Up
from headrace.supervisor.nats import servers
from headrace.supervisor.network.ports import PortTaken
from headrace.supervisor.processes.pidfile import AlreadyRunning, Lock, read_running
from headrace.supervisor.processes.readiness import WHO, AddressInUse, NotReady


@pytest.fixture
def installation(tmp_path, monkeypatch):
    monkeypatch.setattr(up_module, "prepare", lambda *_: SimpleNamespace(dsn=""))
    return Installation(tmp_path)


async def test_a_taken_port_that_was_asked_for_ends_it_and_the_directory_is_free_again(installation):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} is taken"):
            async with Up(installation, installation.settings(), nats_port=port):
                pass
    assert read_running(installation) is None
    with Lock(installation):
        pass


async def test_a_taken_port_of_the_api_that_was_asked_for_is_said_before_anything_is_started(installation):
    progress = []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"--api-port: port {port} is taken; name another"):
            async with Up(installation, installation.settings(), api_port=port, progress=lambda *words: progress.append(words)):
                pass
    assert progress == []


@pytest.mark.parametrize(
    ("exit_code", "error"),
    [
        (1, NotReady("gateway does not start: cannot bind: Address in use")),
        (None, AddressInUse("gateway does not start: cannot listen() errno=98")),
    ],
    ids=["the gateway ended", "the gateway runs on without listening"],
)
async def test_a_faster_process_on_an_unnamed_port_keeps_it_and_another_is_chosen(installation, monkeypatch, exit_code, error):
    """Two that start in the same moment both find 8080 free; that the other one's gateway is well says nothing of ours."""
    asked = []

    async def until_ready(_child, ask):
        asked.append(ask.args[:3])
        if len(asked) == 1:
            raise error

    installation.prepare()
    monkeypatch.setattr(up_module, "until_ready", until_ready)
    monkeypatch.setattr(up_module, "choose_port", lambda wanted, last, **_: last or 20_001)
    monkeypatch.setattr(Installation, "write_gateway_config", lambda _self, port: f"ours on {port}")
    whole = Up(installation, installation.settings())
    monkeypatch.setattr(whole.children, "start", lambda *_: [SimpleNamespace(exit_code=exit_code)])
    monkeypatch.setattr(whole.children, "stop_last", AsyncMock())
    await whole.start_gateway()
    places = [(8080, 8080), (20_001, 20_001), (installation.local_socket(), 20_001)]
    assert asked == [(place, "/healthz", (WHO, f"ours on {port}")) for place, port in places]
    assert (whole.api, installation.settings().api_port) == ("http://127.0.0.1:20001", 20_001)


async def test_a_directory_on_which_another_runs_is_left_alone(installation):
    installation.prepare()
    with Lock(installation), pytest.raises(AlreadyRunning):
        async with Up(installation, installation.settings()):
            pass
    assert not installation.servers()[0].config.exists()


async def test_a_database_that_cannot_be_prepared_ends_what_was_started(installation, monkeypatch):
    def refuse(*_):
        raise InstallationError("no account")

    monkeypatch.setattr(up_module, "prepare", refuse)
    progress = []
    with pytest.raises(InstallationError, match="no account"):
        async with Up(
            installation, installation.settings(), progress=lambda part, what: progress.append((part, what.split()[0]))
        ):
            pass
    assert progress == [("nats-server", "ready"), ("streams", "ready"), ("stopping", "nats-server")]
    assert read_running(installation) is None


async def test_after_the_bus_has_died_the_streams_are_made_again_as_soon_as_it_answers(installation, monkeypatch):
    tries = []

    class FakeConnection:
        closed = False

        async def close(self):
            self.closed = True

    connection = FakeConnection()

    async def connect(*_, **__):
        return connection

    async def ensure(*_):
        tries.append(1)
        if len(tries) < 3:
            raise LogUnavailable("not yet")

    async def see(*_):
        pass

    installation.prepare()
    monkeypatch.setattr(up_module, "connect", connect)
    monkeypatch.setattr(servers, "ensure_streams", ensure)
    monkeypatch.setattr(servers, "check_none_lost", see)
    monkeypatch.setattr(servers, "AGAIN", 0.001)
    whole = Up(installation, installation.settings())
    server = SimpleNamespace(state="running", restarts=0)
    whole.nats_servers = [server]
    whole.on_change()
    assert whole.mending is None
    server.restarts = 1
    whole.on_change()
    await whole.mending
    assert (len(tries), connection.closed) == (3, True)


async def test_of_several_servers_it_is_watched_whether_feed_is_led_and_of_one_alone_not(installation, monkeypatch):
    """A server alone leads whatever it has."""
    watched = []

    async def start(*_, **__):
        return [SimpleNamespace(supervision=None, program=SimpleNamespace(name="nats-server")) for _ in range(servers_wanted)]

    async def watch(whole):
        watched.append(len(whole.nats_servers))

    monkeypatch.setattr(servers, "start", start)
    monkeypatch.setattr(up_module.Inspector, "open", AsyncMock())
    monkeypatch.setattr(Up, "_keep_feed", watch)
    installation.prepare()
    for servers_wanted in (1, 3):
        whole = Up(installation, msgspec.structs.replace(installation.settings(), nats_servers=servers_wanted, nats_port=None))
        await whole.start_nats()
        await asyncio.gather(*whole.watching)
    assert watched == [3]
