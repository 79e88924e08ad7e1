"""Calls of the API on a real server that answers as it is told."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import asynccontextmanager

import pytest

from headrace.client.api import Api, ApiTarget, violations
from headrace.client.errors import HeadraceError, Refused, Unreachable

TOKEN = "aaa.bbb.ccc"


def answer(status, body, *headers):
    payload = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"HTTP/1.1 {status} X", f"content-length: {len(payload)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + payload


@asynccontextmanager
async def server(*answers, socket=None):
    """A server that gives the answers one after the other; where it listens, and the requests that it got."""
    left, asked, connections = list(answers), [], []

    async def serve(reader, writer):
        connections.append(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next((int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("content-length")), 0)
                asked.append((head.split("\r\n"), await reader.readexactly(length)))
                writer.write(left.pop(0))
        except (asyncio.IncompleteReadError, asyncio.CancelledError, IndexError, OSError):
            writer.close()

    listening = await asyncio.start_unix_server(serve, socket) if socket else await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield socket or f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", asked, connections
    finally:
        listening.close()
        for writer in connections:
            writer.close()


async def refused(error, place, call=lambda api: api.get("/v1/pools")):
    """The text with which a call to this place fails."""
    api = Api(ApiTarget(server=place, token=TOKEN))
    with pytest.raises(error) as caught:
        await call(api)
    await api.close()
    return caught.value


async def test_calls_show_the_token_and_go_over_one_connection():
    async with server(answer(200, {"a": 1}), answer(200, b"")) as (place, asked, connections):
        api = Api(ApiTarget(server=place, token=TOKEN))
        assert await api.get("/v1/pools", {"by": ["a", "b c"], "empty": "", "no": False, "yes": True, "n": 3}) == {"a": 1}
        assert await api.post("/v1/x", {"reason": "y"}) == {}
        await api.close()
    (first, _), (second, body) = asked
    assert first[0] == "GET /v1/pools?by=a&by=b+c&yes=true&n=3 HTTP/1.1"
    assert f"authorization: Bearer {TOKEN}" in first
    assert (second[0], body) == ("POST /v1/x HTTP/1.1", b'{"reason":"y"}')
    assert len(connections) == 1


async def test_the_local_socket_is_a_place_as_well(tmp_path):
    async with server(answer(200, {"a": 1}), socket=str(tmp_path / "local.sock")) as (place, _, _):
        api = Api(ApiTarget(socket=place, token="password"))
        assert await api.get("/v1/pools") == {"a": 1}
        await api.close()


async def test_a_body_in_pieces_and_a_stream_of_lines_are_read_to_their_end():
    chunks = b'HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n4\r\n{"a"\r\n3\r\n:1}\r\n0\r\n\r\n'
    lines = b'HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n9\r\n{"a":1}\n{\r\n7\r\n"a":2}\n\r\n0\r\n\r\n'
    async with server(chunks, lines) as (place, _, _):
        api = Api(ApiTarget(server=place))
        assert await api.get("/v1/pools") == {"a": 1}
        assert [one async for one in api.lines("/v1/x:watch")] == [{"a": 1}, {"a": 2}]
        await api.close()


async def test_a_refusal_has_its_reason_its_fields_and_when_to_try_again():
    details = [
        {"@type": "x/google.rpc.ErrorInfo", "reason": "TOO_FAST"},
        {"@type": "x/google.rpc.BadRequest", "field_violations": [{"field": "queue", "description": "is full"}]},
        {"@type": "x/google.rpc.RetryInfo", "retry_delay": "5s"},
    ]
    async with server(answer(429, {"code": 8, "message": "queue: is full", "details": details})) as (place, _, _):
        error = await refused(Refused, place)
    assert (str(error), error.code, error.retry_after) == ("queue: is full", "TOO_FAST", 5)
    assert violations(error) == [("queue", "is full")]


async def test_a_gateway_without_an_api_behind_it_is_an_api_that_is_away():
    body = {"code": 14, "message": "no healthy upstream", "details": [{"reason": "UNAVAILABLE"}]}
    async with server(answer(503, body)) as (place, _, _):
        assert str(await refused(Unreachable, place)).startswith("the API is away: no healthy upstream; `headrace status`")


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (answer(200, b"[1]"), HeadraceError, "gave an answer that is not of this API: look at its address"),
        (answer(404, b"<html>"), Unreachable, "answers 404 and is not the API of Headrace: look at the address"),
        (b"INFO {}\r\n", Unreachable, "does not speak HTTP: it may take TLS, then write https://; look at the address"),
        (b"\x15\x03\x01\x00\x02\x02\x46", Unreachable, "does not speak HTTP: it may take TLS, then write https://"),
    ],
)
async def test_what_is_not_the_api_is_told_in_one_line(body, error, text):
    async with server(body) as (place, _, _):
        assert text in str(await refused(error, place))


async def test_a_connection_that_ends_without_an_answer_is_told():
    async with server() as (place, _, _):
        message = str(await refused(Unreachable, place))
    assert "closed the connection before it had answered: it may take TLS, then write https://" in message


async def test_a_call_that_is_not_answered_in_time_is_told():
    async with server(b"") as (place, _, _):
        message = str(await refused(Unreachable, place, lambda api: api.get("/v1/pools", within=0.01)))
    assert message.endswith("has not answered within 0.01 s; `headrace status` shows what is not running")


async def test_a_missing_listener_is_told(tmp_path):
    async with server() as (place, _, _):
        pass
    assert str(await refused(Unreachable, place)).startswith(f"the API does not answer at {place} (")
    api = Api(ApiTarget(socket=str(tmp_path / "none.sock")))
    with pytest.raises(Unreachable, match=r"none.sock \(No such file or directory\). Is Headrace up"):
        await api.get("/v1/pools")


async def test_https_to_a_port_without_tls_is_told():
    async def serve(_reader, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    plain = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with plain:
        message = str(await refused(Unreachable, f"https://127.0.0.1:{plain.sockets[0].getsockname()[1]}"))
    assert "does not speak TLS; look at its address" in message


async def test_a_certificate_of_an_unknown_authority_names_the_variable(monkeypatch):
    async def fails(*_, **__):
        error = ssl.SSLCertVerificationError(1, "certificate verify failed")
        error.verify_message = "self-signed certificate"
        raise error

    monkeypatch.setattr(asyncio, "open_connection", fails)
    message = str(await refused(Unreachable, "https://api.example"))
    assert message == (
        "https://api.example: its certificate is not trusted: self-signed certificate; "
        "set HEADRACE_CA to the file of its certificate authority"
    )


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("http://api.example:8080", "over http:// others on the network can read the token; write https://"),
        ("api.example", "server: invalid address 'api.example': write https://HOST or https://HOST:PORT"),
        ("https://api.example/other", "invalid address"),
        ("https://ann:secret@api.example", "server: an address has no login in it: write https://HOST:PORT"),
        ("https://api.example:port", "invalid address"),
    ],
)
def test_addresses_that_cannot_be_are_refused_at_once(place, text):
    with pytest.raises(Refused, match="^server: ") as caught:
        Api(ApiTarget(server=place))
    assert text in str(caught.value)


async def test_a_text_that_is_not_utf_8_is_refused_before_it_travels():
    async with server() as (place, asked, _):
        error = await refused(Refused, place, lambda api: api.post("/v1/x", {"reason": "caf\udce9"}))
    assert (str(error), asked) == (r"invalid text 'caf\udce9': use UTF-8", [])
