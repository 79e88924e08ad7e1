"""Calls of a program without an event loop: they block, and every answer and failure is the same as with one."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager

import pytest

from headrace.client.api import Api, ApiTarget
from headrace.client.connecting import has_event_loop
from headrace.client.errors import Unreachable
from headrace.client.streams import answered
from tests.patience import PATIENCE


@contextmanager
def server(*answers):
    """The address of a server that gives the answers one after the other, each to one request, on one connection; then it closes it."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listening.accept()
        with connection, connection.makefile("rb") as reading:
            for answer in answers:
                while reading.readline() not in (b"\r\n", b""):
                    pass
                for piece in answer:
                    connection.sendall(piece)

    playing = threading.Thread(target=serve)
    playing.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    playing.join(PATIENCE)
    listening.close()


PLAIN = [b"HTTP/1.1 200 OK\r\ncontent-le", b'ngth: 7\r\n\r\n{"a":', b"1}"]
CHUNKED = [b'HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n4\r\n{"a"\r\n', b"3\r\n:2}\r\n0\r\n\r", b"\n"]
LINES = [b'HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n9\r\n{"a":1}\n{\r\n7\r\n"a":2}\n\r\n0\r\n\r\n']


async def lines(api):
    return [one async for one in api.lines("/v1/x:watch")]


def test_calls_are_answered_on_one_connection_whole_in_pieces_and_as_lines():
    with server(PLAIN, CHUNKED, LINES) as place:
        api = Api(ApiTarget(server=place, token="t"))
        assert answered(api.get("/v1/a")) == {"a": 1}
        assert answered(api.get("/v1/b")) == {"a": 2}
        assert answered(lines(api)) == [{"a": 1}, {"a": 2}]
        answered(api.close())


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ([], "closed the connection before it had answered: it may take TLS, then write https://"),
        ([[b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n{"]], "closed the connection before it had answered;"),
        ([[b"SSH-2.0-x\r\n"]], "does not speak HTTP"),
        ([[b"HTTP/1.1 200 OK\r\n" + b"x" * (2 * 1024 * 1024)]], "closed the connection before it had answered;"),
    ],
)
def test_a_malformed_answer_is_told_in_one_line(answers, text):
    with server(*answers) as place, pytest.raises(Unreachable) as caught:
        answered(Api(ApiTarget(server=place)).get("/v1/a"))
    assert text in str(caught.value)


def test_an_answer_that_does_not_come_in_time_is_told():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        api = Api(ApiTarget(server=f"http://127.0.0.1:{silent.getsockname()[1]}"))
        with pytest.raises(Unreachable, match="has not answered within 0.01 s"):
            answered(api.get("/v1/a", within=0.01))


def test_a_missing_listener_is_told(tmp_path):
    with pytest.raises(Unreachable, match=r"none.sock \(No such file or directory\). Is Headrace up"):
        answered(Api(ApiTarget(socket=str(tmp_path / "none.sock"))).get("/v1/a"))


async def test_in_a_coroutine_of_asyncio_there_is_an_event_loop():
    assert has_event_loop()


def test_outside_of_a_coroutine_there_is_no_event_loop():
    assert not has_event_loop()
