"""Runs one container, or a command in one, as if it were a process: as a script under a keeper, so all that holds for jobs holds for it.

    container_run SPEC      (a file of JSON that is read and removed: it has the job's environment in it)

It asks an engine that speaks Docker's API, Docker or Podman, over its socket; writes into the file `told` whether the container was started
or why not, and whose fault that was; prints what is printed inside; passes SIGTERM on; and ends with the exit code of what it ran.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

COULD_NOT = 125
_NOT_FOUND, _UNUSABLE = ("executable file not found", "no such file or directory"), ("permission denied", "exec format error")


class EngineError(Exception):
    """The engine refused, or is not there (status 0)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


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
        self, method: str, where: str, body: object = None, timeout: float | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """The answer, as it comes."""
        connection = _Connection(self.path, timeout)
        try:
            yield self._answer(connection, method, where, None if body is None else json.dumps(body))
        except (OSError, http.client.HTTPException) as error:
            raise EngineError(0, f"the container engine at {self.path} does not answer: {error}") from None
        finally:
            connection.close()

    def call(self, method: str, where: str, body: object = None, timeout: float | None = None) -> Any:
        """The answer, decoded; None where it is empty."""
        with self.open(method, where, body, timeout) as answer:
            said = answer.read()
        return json.loads(said) if said else None

    @staticmethod
    def _answer(connection: _Connection, method: str, where: str, content: str | None) -> http.client.HTTPResponse:
        connection.request(method, where, content, {"Content-Type": "application/json"} if content else {})
        answer = connection.getresponse()
        if answer.status >= 400:
            said = answer.read().decode(errors="replace")
            with contextlib.suppress(ValueError, AttributeError):
                said = json.loads(said).get("message", said)
            raise EngineError(answer.status, said.strip()[:1000] or f"status {answer.status}")
        return answer

    def pull(self, image: str) -> None:
        """Have the image here."""
        try:
            self.call("GET", f"/images/{quote(image, safe='/:@')}/json")
        except EngineError as error:
            if error.status != 404:
                raise
            name = image if ":" in image.rpartition("/")[2] or "@" in image else f"{image}:latest"
            with self.open("POST", f"/images/create?fromImage={quote(name, safe='')}") as answer:
                said = [json.loads(line) for line in answer if line.strip()]
            if wrong := next((line["error"] for line in said if "error" in line), ""):
                raise EngineError(500, f"the image {image} cannot be pulled: {wrong}") from None

    def kill(self, name: str, number: str = "SIGKILL", timeout: float | None = None) -> None:
        """Send a signal to its first process; nothing where it does not run."""
        try:
            self.call("POST", f"/containers/{name}/kill?signal={number}", timeout=timeout)
        except EngineError as error:
            if error.status not in {404, 409}:
                raise

    def remove(self, name: str, timeout: float | None = None) -> None:
        """End and remove it; nothing where it is not there."""
        try:
            self.call("DELETE", f"/containers/{name}?force=1&v=1", timeout=timeout)
        except EngineError as error:
            if error.status != 404:
                raise


def pass_on(engine: Engine, method: str, where: str, body: object = None) -> None:
    """Print what comes in frames of eight bytes and as many as the last four of them say."""
    with engine.open(method, where, body) as stream:
        while len(head := stream.read(8)) == 8:
            left = int.from_bytes(head[4:], "big")
            while left and (data := stream.read(min(left, 65536))):
                left -= len(data)
                os.write(1, data)


def run_container(engine: Engine, spec: Mapping[str, Any]) -> int:
    """The container, from its image to its end."""
    name = spec["name"]
    engine.pull(spec["create"]["Image"])
    engine.remove(name)
    engine.call("POST", f"/containers/create?name={name}", spec["create"])
    signal.signal(signal.SIGTERM, lambda *_: engine.kill(name, "SIGTERM"))
    engine.call("POST", f"/containers/{name}/start")
    tell(spec["told"], "started")
    where = f"/containers/{name}/logs?follow=1&stdout=1&stderr=1"
    printing = threading.Thread(target=pass_on, args=(engine, "GET", where), daemon=True)
    printing.start()
    code = int(engine.call("POST", f"/containers/{name}/wait")["StatusCode"])
    printing.join(5)
    engine.remove(name)
    return code


def run_inside(engine: Engine, spec: Mapping[str, Any]) -> int:
    """A command in a container that runs."""
    made = engine.call("POST", f"/containers/{spec['name']}/exec", spec["exec"])["Id"]
    tell(spec["told"], "started")
    pass_on(engine, "POST", f"/exec/{made}/start", {"Detach": False, "Tty": False})
    return int(engine.call("GET", f"/exec/{made}/json")["ExitCode"])


def tell(path: str, what: str) -> None:
    """Say it, whole."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(what)
    os.replace(f"{path}.new", path)


def blamed(error: EngineError) -> str:
    """`failed CODE MESSAGE`: with the code of a shell where the job is at fault, 0 where the node is."""
    said = str(error).lower()
    code = 127 if any(part in said for part in _NOT_FOUND) else 126 if any(part in said for part in _UNUSABLE) else 0
    return f"failed {code if error.status in {400, 404, 500} and code else 0} {' '.join(str(error).split())}"


def main(path: str) -> int:
    """Run what the file says; the exit code."""
    with open(path, encoding="utf-8") as file:
        spec = json.load(file)
    os.unlink(path)
    engine = Engine(spec["socket"])
    try:
        return run_inside(engine, spec) if "exec" in spec else run_container(engine, spec)
    except EngineError as error:
        tell(spec["told"], blamed(error))
        if "exec" not in spec:
            with contextlib.suppress(EngineError):
                engine.remove(spec["name"])
        return COULD_NOT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
