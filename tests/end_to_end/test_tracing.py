"""One trace from the submit to the exit, through every process that has a part in it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

EXAMPLE = Path(__file__).parents[2] / "deploy/examples/ai-dev.yaml"


class Collector(ThreadingHTTPServer):
    """Takes spans by OTLP over HTTP: (trace id, service, span) of each."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.spans: set[tuple[str, str, str]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Request(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            names = {attribute.key: attribute.value.string_value for attribute in resource.resource.attributes}
            for scope in resource.scope_spans:
                self.server.spans |= {(span.trace_id.hex(), names["service.name"], span.name) for span in scope.spans}
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_one_trace_leads_from_the_submit_to_the_exit(headrace, environment, collector):
    environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = collector.url
    assert headrace("up", "--detach").returncode == 0
    assert headrace("apply", "-f", str(EXAMPLE)).returncode == 0
    assert headrace("submit", "--user", "alice", "--queue", "ai-dev/half", "--wait", "--", "true").returncode == 0
    assert headrace("down").returncode == 0  # a process that stops sends what it has not sent
    traces = {trace for trace, _, span in collector.spans if span == "node.run"}
    assert len(traces) == 1
    assert {(service, span) for trace, service, span in collector.spans if trace in traces} == {
        ("headrace-admission", "admission append"),
        ("headrace-allocator", "allocator append"),
        ("headrace-feed", "feed.order"),
        ("headrace-node", "node.start"),
        ("headrace-node", "node.run"),
    }
