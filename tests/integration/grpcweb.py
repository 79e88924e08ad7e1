"""A client of gRPC-Web, as browsers have one: over HTTP/1.1, what is said in frames, and the end of it as a last frame."""

from __future__ import annotations

import http.client
from base64 import b64decode, b64encode
from collections.abc import Iterator
from struct import pack, unpack
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tests.patience import PATIENCE

END = 0x80


class Ended(NamedTuple):
    """How a call ended: gRPC's status, and what is said of it."""

    status: int
    trailers: dict[str, str]


class GrpcWeb:
    """Calls methods of one server as the bearer of the token. `text`: in base64, as older browsers need it."""

    def __init__(self, address: str, token: str = "", *, text: bool = False) -> None:
        self._place = urlsplit(address).netloc
        self._text = text
        kind = "application/grpc-web-text+proto" if text else "application/grpc-web+proto"
        self._headers = {"content-type": kind, "accept": kind, "x-grpc-web": "1"}
        if token:
            self._headers["authorization"] = f"Bearer {token}"

    def call(self, path: str, request: Any, answer: Any) -> tuple[list[Any], Ended]:
        """All answers, and the end."""
        answers: list[Any] = []
        for one in self.frames(path, request):
            if isinstance(one, Ended):
                return answers, one
            answers.append(answer.FromString(one))
        raise AssertionError("the stream broke off")

    def frames(self, path: str, request: Any) -> Iterator[bytes | Ended]:
        """One frame behind the other, as they come."""
        payload = request.SerializeToString()
        body = pack(">BI", 0, len(payload)) + payload
        connection = http.client.HTTPConnection(self._place, timeout=PATIENCE)
        try:
            connection.request("POST", path, b64encode(body) if self._text else body, self._headers)
            response = connection.getresponse()
            headers = {key.lower(): value for key, value in response.getheaders()}
            assert response.status == 200, (response.status, response.read())
            if "grpc-status" in headers:  # it ended before anything was said
                yield Ended(int(headers["grpc-status"]), headers)
                return
            read = _decoded(response) if self._text else response.read
            while head := read(5):
                flag, length = unpack(">BI", head)
                payload = read(length)
                if flag & END:
                    lines = (line.partition(":") for line in payload.decode().split("\r\n") if line)
                    trailers = {key.lower(): value.strip() for key, _, value in lines}
                    yield Ended(int(trailers["grpc-status"]), trailers)
                    return
                yield payload
        finally:
            connection.close()


def _decoded(response: http.client.HTTPResponse) -> Any:
    """`read` over base64; each piece may end with padding of its own."""
    ready = b""

    def read(length: int) -> bytes:
        nonlocal ready
        while len(ready) < length and (four := response.read(4)):
            ready += b64decode(four)
        found, ready = ready[:length], ready[length:]
        return found

    return read
