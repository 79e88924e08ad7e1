"""EC2 as moto plays it, behind what moto lacks: tokens that are looked up, capacity, rates, answers that are lost, lists that lag."""

from __future__ import annotations

import io
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl
from xml.etree import ElementTree as ET

import boto3
from botocore.config import Config
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

ERROR = "<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message></Error></Errors><RequestID>r-1</RequestID></Response>"
SESSION = boto3.session.Session(aws_access_key_id="k", aws_secret_access_key="s")  # it keeps what it has read of EC2
LABILE = ("ClientToken", "Action", "Version")


class _Quiet(WSGIRequestHandler):
    def log(self, *_: object) -> None:
        """Say nothing of requests."""


class FaultyEc2:
    """A server on this machine, one for all regions.

    `sold_out`: pairs of zone and type, an empty zone for any. `throttled`: number of next calls that are refused. `lagging`: number
    of next descriptions that do not show an instance made from now on. `answers`: error codes by action. `lost`: actions that are carried
    out and whose answer is lost. `calls`: how often each action came.
    """

    def __init__(self) -> None:
        self.sold_out: set[tuple[str, str]] = set()
        self.throttled = 0
        self.lagging = 0
        self.answers: dict[str, str] = {}
        self.lost: set[str] = set()
        self.calls: Counter[str] = Counter()
        self._made: dict[str, tuple[object, bytes]] = {}
        self._hidden: dict[str, int] = {}
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._moto = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=_Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def mend(self) -> None:
        """No fault from now on."""
        self.sold_out, self.throttled, self.lagging, self.answers, self.lost = set(), 0, 0, {}, set()
        self._hidden = {}

    def client(self, region: str) -> Any:
        """A client that trusts this server with made-up credentials."""
        if region not in self._clients:
            config = Config(retries={"total_max_attempts": 1}, read_timeout=30)
            settings = {"region_name": region or "us-east-1", "endpoint_url": self.address, "config": config}
            self._clients[region] = SESSION.client("ec2", **settings)
        return self._clients[region]

    def instances(self, region: str = "us-east-1") -> list[dict[str, Any]]:
        """All instances of a region, past every fault."""
        was, self._hidden = self._hidden, {}
        answers, self.answers = self.answers, {}
        throttled, self.throttled = self.throttled, 0
        try:
            pages = self.client(region).get_paginator("describe_instances").paginate()
            return [one for page in pages for made in page["Reservations"] for one in made["Instances"]]
        finally:
            self._hidden, self.answers, self.throttled = was, answers, throttled

    def _answer(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            parameters = dict(parse_qsl(body.decode(), keep_blank_values=True))
            action = parameters.get("Action", "")
            self.calls[action] += 1
            if self.throttled:
                self.throttled -= 1
                return _error(start, "RequestLimitExceeded", "503 Service Unavailable")
            if action in self.answers:
                return _error(start, self.answers[action])
            if action != "RunInstances" or parameters.get("DryRun") == "true":  # which says nothing of capacity
                answer = self.pass_on(environ, body, start)
                return self._shown(answer) if action == "DescribeInstances" else self._maybe_lost(environ, action, answer)
            return self._maybe_lost(environ, action, self._run(environ, body, parameters, start))

    def _run(self, environ: dict[str, Any], body: bytes, parameters: dict[str, str], start: Callable[..., Any]) -> list[bytes]:
        token = parameters.get("ClientToken", "")
        content = {key: value for key, value in parameters.items() if key not in LABILE}
        if token in self._made:
            before, answer = self._made[token]
            if before != content:
                return _error(start, "IdempotentParameterMismatch")
            start("200 OK", [("Content-Type", "text/xml"), ("Content-Length", str(len(answer)))])
            return [answer]
        zone, kind = parameters.get("Placement.AvailabilityZone", ""), parameters.get("InstanceType", "")
        if {(zone, kind), ("", kind)} & self.sold_out:
            return _error(start, "InsufficientInstanceCapacity", "500 Internal Server Error")
        statuses: list[str] = []

        def noting(status: str, *rest: Any) -> Any:
            statuses.append(status)
            return start(status, *rest)

        answer = b"".join(self.pass_on(environ, body, noting))
        if statuses[-1].startswith("200"):
            self._made[token] = content, answer
            if self.lagging:
                self._hidden |= dict.fromkeys(_ids(answer), self.lagging)
        return [answer]

    def pass_on(self, environ: dict[str, Any], body: bytes, start: Callable[..., Any]) -> list[bytes]:
        return list(self._moto(environ | {"wsgi.input": io.BytesIO(body)}, start))

    def _maybe_lost(self, environ: dict[str, Any], action: str, answer: list[bytes]) -> list[bytes]:
        if action in self.lost:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
        return answer

    def _shown(self, answer: list[bytes]) -> list[bytes]:
        """The answer without instances that lists do not show yet; of the same length, which was said already."""
        hidden = {name for name, times in self._hidden.items() if times > 0}
        self._hidden = {name: times - 1 for name, times in self._hidden.items() if times > 1}
        if not hidden:
            return answer
        whole = b"".join(answer)
        root = ET.fromstring(whole)
        for items in root.iter():
            for item in [one for one in items if one.tag.endswith("item") and hidden & set(_ids(ET.tostring(one)))]:
                items.remove(item)
        return [ET.tostring(root).ljust(len(whole))[: len(whole)]]


def _ids(answer: bytes) -> list[str]:
    return [element.text or "" for element in ET.fromstring(answer).iter() if element.tag.endswith("instanceId")]


def _error(start: Callable[..., Any], code: str, status: str = "400 Bad Request") -> list[bytes]:
    answer = ERROR.format(code=code, message=f"played: {code}").encode()
    start(status, [("Content-Type", "text/xml"), ("Content-Length", str(len(answer)))])
    return [answer]
