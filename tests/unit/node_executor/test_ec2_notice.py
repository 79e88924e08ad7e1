"""Notices of EC2's metadata service, which a small server plays: with a session, as version 2 wants it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headrace.node_executor.ec2_notice import notice_of_ec2
from headrace.node_executor.self_end import Notice


class Metadata(BaseHTTPRequestHandler):
    """`notice`: the body of the notice; empty before it comes."""

    notice = b""
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        self._answer(200 if self.headers.get("X-aws-ec2-metadata-token-ttl-seconds") else 400, b"session-1")

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != "session-1":
            self._answer(401, b"")
        elif self.path == "/latest/meta-data/spot/instance-action" and self.notice:
            self._answer(200, self.notice)
        else:
            self._answer(404, b"")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def metadata() -> Iterator[tuple[str, type[Metadata]]]:
    class Fresh(Metadata):
        pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Fresh)
    server.daemon_threads = True
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    yield f"127.0.0.1:{server.server_port}", Fresh
    server.shutdown()
    serving.join()
    server.server_close()


def test_a_notice_is_read_with_a_session(metadata: tuple[str, type[Metadata]]) -> None:
    address, server = metadata
    assert notice_of_ec2(address) is None
    server.notice = b'{"action": "terminate", "time": "2026-11-26T08:22:00Z"}'
    assert notice_of_ec2(address) == Notice(kind="spot", deadline=1_795_681_320_000_000)


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"action": "terminate", "time": "soon"}'])
def test_an_answer_of_another_form_counts_as_no_notice(metadata: tuple[str, type[Metadata]], body: bytes) -> None:
    address, server = metadata
    server.notice = body
    assert notice_of_ec2(address) is None


def test_a_machine_without_a_metadata_service_has_no_notice() -> None:
    assert notice_of_ec2("127.0.0.1:1") is None
