"""An engine that speaks as much of Docker's API as a node needs, on a socket of its own: its containers are plain processes."""

from __future__ import annotations

import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from typing import Any


class Engine(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """At `path`. `images` are there, `pullable` can be pulled; `containers` by name."""

    daemon_threads = True

    def __init__(self, path: Path, kind: str = "Engine") -> None:
        super().__init__(str(path), Handler)
        self.kind = kind
        self.images, self.pullable = {"trainer:1"}, {"other:latest"}
        self.containers: dict[str, Contained] = {}
        self.created: list[dict[str, Any]] = []
        self.execs: dict[str, tuple[Contained, dict[str, Any], list[int]]] = {}
        self.numbers = count(1)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asked may be gone before the answer."""
        if not isinstance(sys.exception(), BrokenPipeError | ConnectionResetError):
            super().handle_error(request, client_address)

    def end(self) -> None:
        for container in list(self.containers.values()):
            container.remove()
        self.shutdown()
        self.server_close()


class Contained:
    """A container: a process, once it is started."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.process: subprocess.Popen[bytes] | None = None

    def spawn(self, command: list[str], env: list[str], where: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            env=dict(one.split("=", 1) for one in env),
            cwd=where,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def start(self) -> None:
        self.process = self.spawn(self.asked["Entrypoint"] + self.asked["Cmd"], self.asked["Env"], self.asked["WorkingDir"])

    def kill(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            if number == signal.SIGKILL:
                os.killpg(self.process.pid, number)
            else:
                self.process.send_signal(number)

    def remove(self) -> None:
        self.kill(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()
            self.process.stdout.close()  # type: ignore[union-attr]


class Handler(BaseHTTPRequestHandler):
    """One call."""

    server: Engine
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "socket"

    def log_message(self, *_: object) -> None: ...

    def answer(self, status: int, body: object = None) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status: int, message: str) -> None:
        self.answer(status, {"message": message})

    def frames(self, stream: Any) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        with stream:
            while data := stream.read1(65536):
                self.wfile.write(b"\1\0\0\0" + len(data).to_bytes(4, "big") + data)
                self.wfile.flush()

    def body(self) -> dict[str, Any]:
        size = int(self.headers.get("Content-Length", 0))
        return json.loads(self.rfile.read(size)) if size else {}

    def do_GET(self) -> None:
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts == ["version"]:
            self.answer(200, {"Components": [{"Name": self.server.kind}]})
        elif parts[0] == "images":
            known = "/".join(parts[1:-1]) in self.server.images
            self.answer(200, {}) if known else self.refuse(404, "no such image")
        elif parts[0] == "exec":
            self.answer(200, {"ExitCode": self.server.execs[parts[1]][2][0]})
        else:  # its output
            process = self.server.containers[parts[1]].process
            assert process is not None
            self.frames(process.stdout)

    def do_POST(self) -> None:
        where, _, query = self.path.partition("?")
        parts, asked = where.strip("/").split("/"), self.body()
        wanted = dict(pair.split("=", 1) for pair in query.split("&") if pair)
        if parts == ["images", "create"]:
            image = wanted["fromImage"].replace("%3A", ":").replace("%2F", "/")
            found = image in self.server.pullable
            self.server.images |= {image, image.removesuffix(":latest")} if found else set()
            self.answer(200, {"status": "done"} if found else {"error": "manifest unknown"})
        elif parts == ["containers", "create"]:
            self.server.created.append(asked)
            self.server.containers[wanted["name"]] = Contained(asked)
            self.answer(201, {"Id": wanted["name"]})
        elif parts[0] == "exec":
            self.run(*self.server.execs[parts[1]])
        else:
            self.of_container(parts[1], parts[2], asked, wanted)

    def of_container(self, name: str, verb: str, asked: dict[str, Any], wanted: dict[str, str]) -> None:
        container = self.server.containers.get(name)
        if container is None:
            self.refuse(404, "no such container")
        elif verb == "start":
            try:
                container.start()
            except FileNotFoundError as error:
                self.refuse(400, f'exec: "{error.filename}": executable file not found in $PATH')
                return
            self.answer(204)
        elif verb == "kill":
            container.kill(getattr(signal, wanted["signal"]))
            self.answer(204)
        elif verb == "wait":
            assert container.process is not None
            code = container.process.wait()
            self.answer(200, {"StatusCode": code if code >= 0 else 128 - code})
        elif verb == "exec":
            number = f"exec-{next(self.server.numbers)}"
            self.server.execs[number] = (container, asked, [])
            self.answer(201, {"Id": number})

    def run(self, container: Contained, asked: dict[str, Any], code: list[int]) -> None:
        process = container.spawn(asked["Cmd"], asked["Env"], asked["WorkingDir"])
        self.frames(process.stdout)
        code.append(process.wait())

    def do_DELETE(self) -> None:
        container = self.server.containers.pop(self.path.partition("?")[0].rpartition("/")[2], None)
        if container is None:
            self.refuse(404, "no such container")
            return
        container.remove()
        self.answer(204)
