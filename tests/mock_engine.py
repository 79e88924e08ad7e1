"""An engine that speaks as much of Docker's API as a node needs, on a socket of its own.

Its containers are plain processes. Where namespaces can be made, those with a network of their own are in one, with its loopback interface.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from headrace.node_executor.runtimes.container_request import INIT
from tests.private_network import why_no_namespaces

NO_NAMESPACES = why_no_namespaces()
"""Why containers here have the network of the machine; empty if they can have one of their own."""


class Engine:
    """At `socket`. `images` are there, `pullable` can be pulled; `containers` by name. An upgrade of it is `stop` and `start`.

    `says`: what it answers to every GET, if anything; `unremovable`: containers that it cannot remove. `networks`: those that it has made,
    as it was asked; `no_network`: why it makes none; `forgets_networks`: what it makes is not there afterwards. `no_bridge`: why
    containers have the network of the machine, whatever was asked.
    """

    image = "trainer:1"
    interfaces = ("lo",)
    no_bridge = NO_NAMESPACES

    def __init__(self, path: Path, kind: str = "Engine") -> None:
        self.socket = str(path)
        self.kind = kind
        self.images, self.pullable = {self.image}, {"other:latest"}
        self.refusal = "manifest unknown"
        self.broken_start = ""
        self.says = ""
        self.unremovable: set[str] = set()
        self.containers: dict[str, Contained] = {}
        self.created: list[dict[str, Any]] = []
        self.logins: list[str] = []
        self.networks: dict[str, dict[str, Any]] = {}
        self.no_network = ""
        self.forgets_networks = False
        self.execs: dict[str, Contained] = {}
        self.numbers = count(1)
        self.server: Server | None = None
        self.start()

    @property
    def namespace(self) -> str:
        """The network namespace of its host."""
        return os.readlink("/proc/self/ns/net")

    def start(self) -> None:
        Path(self.socket).unlink(missing_ok=True)
        self.server = Server(self)

    def stop(self) -> None:
        if self.server is not None:
            self.server.end()
            self.server = None
            Path(self.socket).unlink(missing_ok=True)

    def end(self) -> None:
        for container in list(self.containers.values()):
            container.remove()
        self.stop()


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """One life of an engine."""

    daemon_threads = True

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.socket, Handler)
        self.engine = engine
        self.open: set[socket.socket] = set()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asked may be gone before the answer, and we may be."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def end(self) -> None:
        self.shutdown()
        self.server_close()
        for one in list(self.open):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


class Contained:
    """A container, or a command in one: a process, once it is started, and what it has printed, with the time of each piece."""

    def __init__(self, asked: dict[str, Any], command: list[str]) -> None:
        self.asked = asked
        self.command = command
        self.process: subprocess.Popen[bytes] | None = None
        self.printed: list[tuple[float, bytes]] = []
        self.over = False
        self.changed = threading.Condition()

    def start(self) -> None:
        command = list(self.command)
        for bind in self.asked.get("HostConfig", {}).get("Binds", ()):
            source, target = bind.split(":")[:2]
            if command[0] == target == INIT:
                command[0] = source
        self.process = subprocess.Popen(
            [*self.within(command[0]), *command],
            env=dict(one.split("=", 1) for one in self.asked["Env"]),
            cwd=self.asked["WorkingDir"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()
        threading.Thread(target=self._end_all, args=(self.process,), daemon=True).start()

    def within(self, program: str) -> tuple[str, ...]:
        """The words before its command by which it has the network that was asked for; none before a program that is not there."""
        network = self.asked.get("HostConfig", {}).get("NetworkMode", "host")
        has_own = network != "host" and not NO_NAMESPACES and shutil.which(program) is not None
        return ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh") if has_own else ()

    def _end_all(self, process: subprocess.Popen[bytes]) -> None:
        """With its first process everything in it ends."""
        process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    def _read(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        while data := self.process.stdout.read1(65536):
            with self.changed:
                self.printed.append((time.time(), data))
                self.changed.notify_all()
        self.process.stdout.close()
        self.process.wait()
        with self.changed:
            self.over = True
            self.changed.notify_all()

    @property
    def runs(self) -> bool:
        return self.process is not None and not self.over

    @property
    def code(self) -> int:
        assert self.process is not None
        code = self.process.wait()
        return code if code >= 0 else 128 - code

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


class Handler(BaseHTTPRequestHandler):
    """One call."""

    server: Server
    protocol_version = "HTTP/1.1"

    @property
    def engine(self) -> Engine:
        return self.server.engine

    def address_string(self) -> str:
        return "socket"

    def log_message(self, *_: object) -> None: ...

    def answer(self, status: int, body: object = None) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        if self.engine.says and self.command == "GET":
            data = self.engine.says.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status: int, message: str) -> None:
        self.answer(status, {"message": message})

    def begin_frames(self) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.flush()
        self.close_connection = True

    def frame(self, data: bytes) -> None:
        self.wfile.write(b"\1\0\0\0" + len(data).to_bytes(4, "big") + data)
        self.wfile.flush()

    def live(self, container: Contained, place: int) -> None:
        """What it prints from the piece of this number on, until it ends."""
        self.begin_frames()
        while True:
            with container.changed:
                while place == len(container.printed) and not container.over:
                    container.changed.wait()
                fresh = container.printed[place:]
            for _, data in fresh:
                self.frame(data)
            place += len(fresh)
            if not fresh:
                return

    def stamped(self, container: Contained, since: float) -> None:
        """What it has printed, in lines with their times."""
        self.begin_frames()
        for at, data in list(container.printed):
            if at >= since:
                for line in data.splitlines(keepends=True):
                    self.frame(datetime.fromtimestamp(at, UTC).isoformat().encode() + b" " + line)

    def body(self) -> dict[str, Any]:
        size = int(self.headers.get("Content-Length", 0))
        return json.loads(self.rfile.read(size)) if size else {}

    def do_GET(self) -> None:
        where, _, query = self.path.partition("?")
        parts, wanted = where.strip("/").split("/"), dict(parse_qsl(query))
        if parts == ["version"]:
            self.answer(200, {"Components": [{"Name": self.engine.kind}]})
        elif parts[0] == "images":
            known = "/".join(parts[1:-1]) in self.engine.images
            self.answer(200, {}) if known else self.refuse(404, "no such image")
        elif parts[0] == "exec":
            done = self.engine.execs[parts[1]]
            pid = done.process.pid if done.process else 0
            self.answer(200, {"ExitCode": None if done.runs else done.code, "Pid": pid, "ContainerID": ""})
        elif parts[0] == "networks":
            found = self.engine.networks.get(parts[1])
            self.refuse(404, "no such network") if found is None else self.answer(200, found)
        elif parts == ["containers", "json"]:
            label = json.loads(wanted["filters"])["label"][0].split("=", 1)
            found = [(name, one.asked["Labels"]) for name, one in self.engine.containers.items()]
            listed = [{"Names": [f"/{name}"], "Labels": labels} for name, labels in found if labels.get(label[0]) == label[1]]
            self.answer(200, listed)
        elif (container := self.engine.containers.get(parts[1])) is None:
            self.refuse(404, "no such container")
        elif parts[2] == "json":
            state = {"Running": container.runs, "OOMKilled": False, "ExitCode": container.code if container.over else 0}
            self.answer(200, {"State": {**state, "Status": "created" if container.process is None else "running"}})
        else:
            self.stamped(container, float(wanted.get("since", 0)))

    def do_POST(self) -> None:
        where, _, query = self.path.partition("?")
        parts, asked = where.strip("/").split("/"), self.body()
        wanted = dict(pair.split("=", 1) for pair in query.split("&") if pair)
        if parts == ["images", "create"]:
            image = unquote(wanted["fromImage"])
            self.engine.logins.append(self.headers.get("X-Registry-Auth", ""))
            found = image in self.engine.pullable
            self.engine.images |= {image, image.removesuffix(":latest")} if found else set()
            self.answer(200, {"status": "done"} if found else {"error": self.engine.refusal})
        elif parts == ["networks", "create"]:
            if self.engine.no_network:
                self.refuse(500, self.engine.no_network)
                return
            self.engine.networks |= {} if self.engine.forgets_networks else {asked["Name"]: asked}
            self.answer(201, {"Id": asked["Name"]})
        elif parts == ["containers", "create"] and (mode := asked["HostConfig"]["NetworkMode"]) not in {
            "host",
            "none",
            *self.engine.networks,
        }:
            self.refuse(404, f"network {mode} not found")
        elif parts == ["containers", "create"]:
            self.engine.created.append(asked)
            self.engine.containers[wanted["name"]] = Contained(asked, asked["Entrypoint"] + asked["Cmd"])
            self.answer(201, {"Id": wanted["name"]})
        elif parts[0] == "exec":
            done = self.engine.execs[parts[1]]
            try:
                done.start()
            except FileNotFoundError as error:
                self.refuse(400, f'exec: "{error.filename}": executable file not found in $PATH')
                return
            self.live(done, 0)
        else:
            self.of_container(parts[1], parts[2], asked, wanted)

    def of_container(self, name: str, verb: str, asked: dict[str, Any], wanted: dict[str, str]) -> None:
        container = self.engine.containers.get(name)
        if container is None:
            self.refuse(404, "no such container")
        elif verb == "attach":
            self.live(container, len(container.printed))
        elif verb == "start":
            if self.engine.broken_start:
                self.refuse(500, self.engine.broken_start)
                return
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
            with container.changed:
                while not container.over:
                    container.changed.wait()
            self.answer(200, {"StatusCode": container.code})
        elif verb == "exec":
            number = f"exec-{next(self.engine.numbers)}"
            self.engine.execs[number] = Contained(asked, asked["Cmd"])
            self.answer(201, {"Id": number})

    def do_DELETE(self) -> None:
        name = self.path.partition("?")[0].rpartition("/")[2]
        if name in self.engine.unremovable:
            self.refuse(500, "device or resource busy")
            return
        container = self.engine.containers.pop(name, None)
        if container is None:
            self.refuse(404, "no such container")
            return
        container.remove()
        self.answer(204)
