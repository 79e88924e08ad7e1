"""Calls of the API as JSON over HTTP: to the local socket of an installation, or to an address with https.

Strategy: HTTP/1.1 on `streams`, a pool of connections. gRPC and an HTTP library would each take longer to import than a call takes.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, NamedTuple, NoReturn
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from headrace.client.connecting import connected
from headrace.client.errors import HeadraceError, Refused, Unreachable
from headrace.client.streams import Address, Ended, Stream, TooLong

ANSWER_WITHIN = 65.0
"""Timeout of a call in seconds: a little more than the API's own."""
IDLE = 20.0
"""Seconds for which a connection is used again; the gateway closes it after 30."""
LOOPBACKS = frozenset({"localhost", "127.0.0.1", "::1"})
HTTP, HTTPS = "http", "https"
LOOK = "`headrace status` shows what is not running"

_GATEWAYS_OWN = ("no healthy upstream", "upstream connect error", "upstream request timeout")
"""Beginnings of messages by which the gateway says that the API behind it does not answer."""

Query = Mapping[str, object]
"""Parameters of a call; empty values are left out, several values of a list are repeated."""


class ApiTarget(NamedTuple):
    """Where the API is, and what is shown to it.

    `server`: `https://HOST:PORT`, or `http://` on this machine. `socket`: path of the local socket, which is taken instead of `server`.
    `token`: a bearer token, or the owner's password at the local socket. `ca`: file of the trusted certificate authority.
    """

    server: str = ""
    socket: str = ""
    token: str = ""
    ca: str = ""

    @property
    def called(self) -> str:
        """The address as messages name it."""
        return self.server or self.socket


class _Head(NamedTuple):
    status: int
    headers: Mapping[str, str]


class _Open(NamedTuple):
    """An open connection, and when it was used last (seconds, monotonic)."""

    stream: Stream
    used_at: float
    is_new: bool = True


class Api:
    """Calls with one token. Raises Unreachable without an answer, Refused if the call is refused.

    `answer_within`: timeout in seconds of the calls that are given none.
    """

    def __init__(self, target: ApiTarget, answer_within: float = ANSWER_WITHIN) -> None:
        self.target = target
        self.answer_within = answer_within
        self._address = Address(socket=target.socket) if target.socket else _address(target)
        self._idle: list[_Open] = []

    async def close(self) -> None:
        """Close all connections; closing twice is harmless."""
        while self._idle:
            self._idle.pop().stream.close()

    async def get(self, path: str, query: Query | None = None, within: float | None = None) -> dict[str, Any]:
        """The answer to a GET."""
        return await self.call("GET", path, query, within=within)

    async def post(self, path: str, body: object = None, within: float | None = None) -> dict[str, Any]:
        """The answer to a POST with a body."""
        return await self.call("POST", path, body={} if body is None else body, within=within)

    async def call(
        self, verb: str, path: str, query: Query | None = None, body: object = None, within: float | None = None
    ) -> dict[str, Any]:
        """The answer as JSON with the names of the protos. `path`: from `/v1/` on, with its variables encoded (`part`)."""
        async with self._asked(verb, path, query, body, within) as (opened, head):
            with self._broken(opened):
                payload = await _body(opened.stream, head)
        if head.status >= 300:
            _raise(head.status, payload, self.target)
        try:
            answer = msgspec.json.decode(payload or b"{}")
        except msgspec.DecodeError:
            answer = None
        if not isinstance(answer, dict):
            raise HeadraceError(f"{self.target.called} gave an answer that is not of this API: look at its address")
        return answer

    async def lines(self, path: str, query: Query | None = None) -> AsyncIterator[dict[str, Any]]:
        """The objects of a stream, until it ends."""
        async with aclosing(self.raw_lines(path, query)) as found:
            async for line in found:
                yield msgspec.json.decode(line)

    async def raw_lines(self, path: str, query: Query | None = None) -> AsyncGenerator[bytes, None]:
        """The objects of a stream as JSON, until it ends."""
        async with self._asked("GET", path, query, None, None) as (opened, head):
            with self._broken(opened):
                if head.status >= 300:
                    _raise(head.status, await _body(opened.stream, head), self.target)
                begun: list[bytes] = []  # of a line; it may come in many pieces
                opened.stream.begin(math.inf)
                async for piece in _pieces(opened.stream, head):
                    *ends, rest = piece.split(b"\n")
                    for end in ends:
                        if line := b"".join((*begun, end)):
                            yield line
                        begun.clear()
                    begun.append(rest)

    @asynccontextmanager
    async def _asked(
        self, verb: str, path: str, query: Query | None, body: object, within: float | None
    ) -> AsyncIterator[tuple[_Open, _Head]]:
        """A connection on which the head of the answer has been read; it is used again if the answer is read to its end."""
        try:
            sent = b"" if body is None else msgspec.json.encode(body)
        except UnicodeEncodeError as error:
            raise Refused("INVALID", f"invalid text {error.object[:80]!r}: use UTF-8") from None
        where = path + (f"?{urlencode(pairs)}" if (pairs := _pairs(query or {})) else "")
        within = self.answer_within if within is None else within
        request = self._head_of(verb, where, len(sent), has_body=body is not None).encode() + sent
        opened = await self._connection()
        done = False
        try:
            with self._broken(opened):
                opened.stream.begin(within)
                await opened.stream.send(request)
                head = await _head(opened.stream)
            yield opened, head
            done = head.headers.get("connection", "").lower() != "close"
        except TimeoutError:
            raise Unreachable(f"{self.target.called} has not answered within {within:g} s; {LOOK}") from None
        finally:
            if done:
                self._idle.append(opened._replace(used_at=time.monotonic(), is_new=False))
            else:
                opened.stream.close()

    def _head_of(self, verb: str, where: str, length: int, *, has_body: bool) -> str:
        host = "localhost" if self._address.socket else urlsplit(self.target.server).netloc
        token = f"authorization: Bearer {self.target.token}\r\n" if self.target.token else ""
        about = f"content-type: application/json\r\ncontent-length: {length}\r\n" if has_body else ""
        return f"{verb} {where} HTTP/1.1\r\nhost: {host}\r\naccept: application/json\r\n{token}{about}\r\n"

    async def _connection(self) -> _Open:
        while self._idle:
            kept = self._idle.pop()
            if time.monotonic() - kept.used_at < IDLE and not kept.stream.is_over:
                return kept
            kept.stream.close()
        try:
            return _Open(await connected(self._address), 0.0)
        except (OSError, TimeoutError) as error:
            raise Unreachable(self._why_closed(error)) from None

    def _why_closed(self, error: OSError | TimeoutError) -> str:
        """Why no connection was made, with the way out."""
        import ssl  # noqa: PLC0415 - a call over the local socket needs it only here

        from headrace.contracts.transport.tls import CA  # noqa: PLC0415

        called = self.target.called
        match error:
            case ssl.SSLCertVerificationError():
                why = error.verify_message or "its certificate is not valid"
                return f"{called}: its certificate is not trusted: {why}; set {CA} to the file of its certificate authority"
            case ssl.SSLError():
                return f"{called} does not speak TLS; look at its address: http:// is for this machine only"
            case PermissionError():
                return f"{called} belongs to another account: set HEADRACE_SERVER to the API's address and HEADRACE_TOKEN to a token"
            case TimeoutError():
                return f"{called} does not answer; {LOOK}"
        why = error.strerror or str(error)
        if self.target.server and check_address(called)[1] not in LOOPBACKS:
            return f"the API does not answer at {called} ({why}): look at the address, or ask who runs it"
        return f"the API does not answer at {called} ({why}). Is Headrace up? `headrace up` starts it; {LOOK}"

    @contextlib.contextmanager
    def _broken(self, opened: _Open) -> Iterator[None]:
        """Errors of a connection as Unreachable."""
        called = self.target.called
        try:
            yield
        except TimeoutError:
            raise
        except _NotHttp:
            raise Unreachable(f"{called} does not speak HTTP{self._perhaps_tls()}; look at the address") from None
        except (OSError, Ended, TooLong) as error:
            nothing = isinstance(error, Ended) and not error.partial and opened.is_new
            hint = self._perhaps_tls() if nothing or isinstance(error, ConnectionResetError) else ""
            raise Unreachable(f"{called} closed the connection before it had answered{hint}; {LOOK}") from None

    def _perhaps_tls(self) -> str:
        return ": it may take TLS, then write https://" if self.target.server.startswith(f"{HTTP}://") else ""


class _NotHttp(Exception):
    """The other side does not speak HTTP."""


def part(text: str) -> str:
    """A variable of a path, encoded."""
    return quote(text, safe="")


def _pairs(query: Query) -> list[tuple[str, str]]:
    each = ((name, one) for name, value in query.items() for one in (value if isinstance(value, list | tuple) else (value,)))
    return [(name, "true" if one is True else str(one)) for name, one in each if one]


def check_address(server: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address. Raises Refused for a malformed one, and for http beyond this machine."""
    try:
        parts = urlsplit(server)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    if parts.username is not None or parts.password is not None:
        raise Refused(
            "INVALID", "server: an address has no login in it: write https://HOST:PORT, and set HEADRACE_TOKEN to the token"
        )
    if parts.scheme not in (HTTP, HTTPS) or not host or parts.path not in ("", "/", "/v1", "/v1/") or parts.query:
        raise Refused("INVALID", f"server: invalid address {server[:200]!r}: write https://HOST or https://HOST:PORT")
    if parts.scheme == HTTP and host not in LOOPBACKS:
        raise Refused("INVALID", f"server: {server}: over http:// others on the network can read the token; write https://")
    return parts.scheme, host, port


def _address(target: ApiTarget) -> Address:
    """Host, port and TLS of an address. Raises as `check_address`, and Unreachable if the authority's file cannot be used."""
    scheme, host, port = check_address(target.server)
    if scheme == HTTP:
        return Address(host, port or 80)
    from headrace.contracts.transport.tls import CertificateError, trust_file  # noqa: PLC0415 - a local socket needs no TLS

    try:
        return Address(host, port or 443, trust_file(target.ca))
    except CertificateError as error:
        raise Unreachable(str(error)) from None


async def _head(stream: Stream) -> _Head:
    first = await stream.exactly(5)
    if first != b"HTTP/":
        raise _NotHttp
    text = (await stream.until(b"\r\n\r\n")).decode("latin-1")
    status, *lines = text.split("\r\n")
    words = status.split(" ", 2)
    if len(words) < 2 or not words[1].isdecimal():
        raise _NotHttp
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return _Head(int(words[1]), headers)


async def _body(stream: Stream, head: _Head) -> bytes:
    return b"".join([piece async for piece in _pieces(stream, head)])


async def _pieces(stream: Stream, head: _Head) -> AsyncIterator[bytes]:
    """The body as it comes, to its end."""
    if head.headers.get("transfer-encoding", "").lower() == "chunked":
        while size := int((await stream.until(b"\r\n")).partition(b";")[0], 16):
            yield await stream.exactly(size)
            await stream.exactly(2)
        while await stream.until(b"\r\n") != b"\r\n":
            pass
    elif length := int(head.headers.get("content-length", "0") or 0):
        yield await stream.exactly(length)


def _raise(status: int, payload: bytes, target: ApiTarget) -> NoReturn:
    """Raise what an answer with an error says."""
    try:
        error = msgspec.json.decode(payload)
        message, details = str(error["message"]), error.get("details", [])
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        raise Unreachable(f"{target.called} answers {status} and is not the API of Headrace: look at the address") from None
    if status in (503, 504) and message.startswith(_GATEWAYS_OWN):
        raise Unreachable(f"the API is away: {message}; {LOOK}")
    reason, retry_after = "REFUSED", None
    for one in details if isinstance(details, list) else []:
        reason = one.get("reason", reason)
        delay = str(one.get("retryDelay", one.get("retry_delay", ""))).removesuffix("s")
        retry_after = int(float(delay)) if delay.replace(".", "", 1).isdecimal() else retry_after
    raise Refused(reason, message, payload, retry_after=retry_after)


def violations(refusal: Refused) -> list[tuple[str, str]]:
    """(field, problem) of each invalid field that a refusal names."""
    try:
        details = msgspec.json.decode(refusal.body)["details"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return []
    found = [fault for one in details for fault in one.get("fieldViolations", one.get("field_violations", []))]
    return [(str(fault.get("field", "")), str(fault.get("description", ""))) for fault in found]
