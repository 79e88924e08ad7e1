"""A client of a container engine that speaks Docker's API, Docker or Podman, over its socket.

It imports the standard library only, because `container_run` uses it as a script.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

UNREADABLE = (AttributeError, KeyError, TypeError, ValueError)  # raised if an answer lacks what the engine's API promises

_NO_SUCH_IMAGE = (
    *("manifest unknown", "not found", "name unknown", "does not exist"),
    *("access denied", "unauthorized", "invalid reference"),
)


class EngineError(Exception):
    """The engine refused, or does not answer (status 0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Unreadable(EngineError, ValueError):
    """The engine's answer (status 0) does not follow its API."""


class NoImage(EngineError):
    """The job's image cannot be pulled, on any node."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Engine:
    """Docker's API at the socket `path`. Its calls raise `EngineError`."""

    def __init__(self, path: str) -> None:
        self.path = path

    @contextlib.contextmanager
    def open(
        self, method: str, where: str, body: object = None, timeout: float | None = None, login: str = ""
    ) -> Iterator[http.client.HTTPResponse]:
        """Yield the response as a stream. `login`: `USER:PASSWORD` for a registry."""
        connection = _Connection(self.path, timeout)
        try:
            headers = {"Content-Type": "application/json"} if body is not None else {}
            if login:
                headers["X-Registry-Auth"] = registry_auth(login)
            yield self._answer(connection, method, where, None if body is None else json.dumps(body), headers)
        except (OSError, http.client.HTTPException) as error:
            raise EngineError(0, f"the container engine at {self.path} does not answer: {error}") from None
        finally:
            connection.close()

    def call(self, method: str, where: str, body: object = None, timeout: float | None = None) -> Any:
        """Return the decoded response; None if it is empty."""
        with self.open(method, where, body, timeout) as answer:
            payload = answer.read()
        try:
            return json.loads(payload) if payload else None
        except (ValueError, RecursionError):
            raise Unreadable(0, f"the container engine at {self.path} answers what is not JSON: {payload[:80]!r}") from None

    @staticmethod
    def _answer(
        connection: _Connection, method: str, where: str, content: str | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        connection.request(method, where, content, headers)
        answer = connection.getresponse()
        if answer.status >= 400:
            payload = answer.read().decode(errors="replace")
            with contextlib.suppress(ValueError, AttributeError):
                payload = str(json.loads(payload).get("message", payload))
            raise EngineError(answer.status, payload.strip()[:1000] or f"status {answer.status}")
        return answer

    def pull(self, image: str, login: str = "") -> None:
        """Pull the image, unless it is here. `login`: `USER:PASSWORD`.

        Raises `NoImage` if the registry does not have the name or refuses access.
        """
        try:
            self.call("GET", f"/images/{quote(image, safe='/:@')}/json")
        except EngineError as error:
            if error.status == 0:
                raise
            name = image if ":" in image.rpartition("/")[2] or "@" in image else f"{image}:latest"
            try:
                self._fetch(name, login)
            except EngineError as error:
                kind = NoImage if error.status and any(part in str(error).lower() for part in _NO_SUCH_IMAGE) else EngineError
                raise kind(error.status, f"the image {image} cannot be pulled: {error}") from None

    def _fetch(self, name: str, login: str) -> None:
        with self.open("POST", f"/images/create?fromImage={quote(name, safe='')}", login=login) as answer:
            payload = [json.loads(line) for line in answer if line.strip()]
        if wrong := next((line["error"] for line in payload if "error" in line), ""):
            raise EngineError(500, wrong)

    def kill(self, name: str, number: str = "SIGKILL", timeout: float | None = None) -> None:
        """Send a signal to its first process; no effect if it does not run."""
        try:
            self.call("POST", f"/containers/{name}/kill?signal={number}", timeout=timeout)
        except EngineError as error:
            if error.status not in {404, 409}:
                raise

    def remove(self, name: str, timeout: float | None = None) -> None:
        """End and remove the container; no effect if it does not exist."""
        try:
            self.call("DELETE", f"/containers/{name}?force=1&v=1", timeout=timeout)
        except EngineError as error:
            if error.status != 404:
                raise


def registry_auth(login: str) -> str:
    """Return the header by which an engine is told `USER:PASSWORD` of a registry."""
    user, _, password = login.partition(":")
    return base64.urlsafe_b64encode(json.dumps({"username": user, "password": password}).encode()).decode()


def frames(stream: http.client.HTTPResponse) -> Iterator[tuple[int, bytes]]:
    """Yield stream number (1, 2) and bytes of each frame: the number, three bytes, a size in four bytes, and the bytes."""
    while len(head := stream.read(8)) == 8:
        size = int.from_bytes(head[4:], "big")
        if len(data := stream.read(size)) < size:  # the engine went away
            return
        yield 2 if head[0] == 2 else 1, data
