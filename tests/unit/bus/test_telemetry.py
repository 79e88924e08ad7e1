"""Logs are JSON lines; traces cost nothing when off and continue the given one when on."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import structlog
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from headrace.bus import telemetry
from headrace.health.metrics import MetricSources

PARENT = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry.Tracing, "tracer", provider.get_tracer("test"))
    return exporter


@pytest.fixture
def clean_logs() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def test_without_tracing_a_span_hands_the_traceparent_on() -> None:
    with telemetry.span("work", PARENT, facts=3) as span:
        assert span.traceparent == PARENT
    assert telemetry.new_traceparent() == ""


def test_a_span_continues_the_given_trace_and_names_itself_to_the_next(spans: InMemorySpanExporter) -> None:
    with telemetry.span("outer", PARENT, facts=3) as outer, telemetry.span("inner", outer.traceparent) as inner:
        assert inner.traceparent != outer.traceparent != PARENT
    first, second = spans.get_finished_spans()
    assert (first.name, second.name, second.attributes) == ("inner", "outer", {"facts": 3})
    assert second.parent is not None
    assert first.parent is not None
    assert f"{second.parent.span_id:016x}" == PARENT[36:52]
    assert first.parent.span_id == second.context.span_id
    assert {f"{s.context.trace_id:032x}" for s in (first, second)} == {PARENT[3:35]}


def test_figures_are_read_when_metrics_are_sent_and_cost_nothing_without_a_recorder(monkeypatch: pytest.MonkeyPatch) -> None:
    silent, metrics = MetricSources(), MetricSources()
    silent.gauge("headrace_behind", "how far behind", lambda: 1 // 0)
    telemetry.send(silent, "feed")
    reader = InMemoryMetricReader()
    monkeypatch.setattr(telemetry.Tracing, "metrics", MeterProvider(metric_readers=[reader]))
    metrics.gauge("headrace_behind", "how far behind", lambda: {("a",): 7, ("b",): 9}, "writer")
    telemetry.send(metrics, "feed")
    metrics.counter("headrace_done_total", "what was done", lambda: 3)
    metrics.histogram("headrace_took_seconds", "how long", (1.0, 2.0)).observe(1.5)
    data = reader.get_metrics_data()
    assert data is not None
    sent = {
        (metric.name, *(f"{key}={value}" for key, value in point.attributes.items())): point.value
        for metric in data.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.data.data_points
    }
    assert sent == {
        ("headrace_behind", "writer=a"): 7,
        ("headrace_behind", "writer=b"): 9,
        ("headrace_done_total",): 3,
        ("headrace_took_seconds_sum",): 1.5,
        ("headrace_took_seconds_count",): 1,
        ("headrace_took_seconds_bucket", "le=1.0"): 0,
        ("headrace_took_seconds_bucket", "le=2.0"): 1,
        ("headrace_took_seconds_bucket", "le=+Inf"): 1,
    }


@pytest.mark.parametrize("nonsense", ["", "nonsense", PARENT[:-1], PARENT.upper() + "Z"])
def test_a_span_of_no_trace_is_not_recorded(spans: InMemorySpanExporter, nonsense: str) -> None:
    with telemetry.span("work", nonsense) as span:
        assert span.traceparent == ""
    assert spans.get_finished_spans() == ()


def test_an_error_inside_a_span_is_noted_and_goes_on(spans: InMemorySpanExporter) -> None:
    with pytest.raises(KeyError), telemetry.span("work", PARENT):
        raise KeyError("x")
    (span,) = spans.get_finished_spans()
    assert [event.name for event in span.events] == ["exception"]


def test_a_new_trace_can_be_continued(spans: InMemorySpanExporter) -> None:
    begun = telemetry.new_traceparent()
    with telemetry.span("work", begun):
        pass
    (span,) = spans.get_finished_spans()
    assert f"{span.context.trace_id:032x}" == begun[3:35]


@pytest.mark.usefixtures("clean_logs")
def test_every_line_is_a_json_object_with_time_level_service_and_event(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.configure_logs("allocator")
    structlog.get_logger("headrace.test").info("granted", job="x")
    logging.getLogger("nats.aio.client").warning("nats: %s", "odd")
    structlog.get_logger("headrace.test").debug("not shown")
    own, foreign = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert own.pop("time").endswith("Z")
    assert foreign.pop("time").endswith("Z")
    assert own == {"event": "granted", "job": "x", "level": "info", "service": "allocator"}
    assert foreign == {"event": "nats: odd", "level": "warning", "service": "allocator"}


@pytest.mark.usefixtures("clean_logs")
async def test_a_line_carries_the_service_of_its_task_in_a_process_of_several(capsys: pytest.CaptureFixture[str]) -> None:
    async def log(event: str) -> str:
        structlog.get_logger("headrace.test").info(event)
        await asyncio.create_task(_log_inside(event))
        return event

    async def _log_inside(event: str) -> None:
        structlog.get_logger("headrace.test").info(f"{event} inside")

    telemetry.configure_logs("governance+feed")
    assert await telemetry.acting_as("feed", log("of feed")) == "of feed"
    await log("of all")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["service"], line["event"]) for line in lines] == [
        ("feed", "of feed"),
        ("feed", "of feed inside"),
        ("governance+feed", "of all"),
        ("governance+feed", "of all inside"),
    ]


async def test_a_span_carries_the_service_of_its_task_in_a_process_of_several(
    spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry.Tracing, "tracers", {"feed": provider.get_tracer("test")})

    async def work(name: str) -> None:
        with telemetry.span(name, PARENT):
            pass

    await telemetry.acting_as("feed", work("of feed"))
    await work("of all")
    assert [span.name for span in exporter.get_finished_spans()] == ["of feed"]
    assert [span.name for span in spans.get_finished_spans()] == ["of all"]


def test_metrics_of_two_services_of_a_process_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = InMemoryMetricReader()
    monkeypatch.setattr(telemetry.Tracing, "metrics", MeterProvider(metric_readers=[reader]))
    for service, value in (("feed", 7), ("governance", 9)):
        metrics = MetricSources()
        telemetry.send(metrics, service)
        metrics.gauge("headrace_behind", "how far behind", lambda value=value: value)
    data = reader.get_metrics_data()
    assert data is not None
    sent = {
        scope.scope.name: [point.value for metric in scope.metrics for point in metric.data.data_points]
        for scope in data.resource_metrics[0].scope_metrics
    }
    assert sent == {"headrace.feed": [7], "headrace.governance": [9]}


@pytest.mark.usefixtures("clean_logs")
def test_traces_are_set_up_only_where_an_endpoint_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(telemetry, "new_tracer", asked.append)
    monkeypatch.setattr(telemetry, "configure_metrics", lambda _: None)
    monkeypatch.setattr(telemetry.Tracing, "tracer", None)
    monkeypatch.setattr(telemetry.Tracing, "tracers", {})
    monkeypatch.delenv(telemetry.ENDPOINT, raising=False)
    telemetry.configure("allocator")
    assert asked == []
    monkeypatch.setenv(telemetry.ENDPOINT, "http://127.0.0.1:1")
    telemetry.configure("allocator")
    assert asked == ["allocator"]
    telemetry.configure("governance+feed", ["governance", "feed"])
    assert asked == ["allocator", "governance+feed", "governance", "feed"]


def test_configured_traces_are_sent_at_the_end_at_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posted.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    monkeypatch.setattr(telemetry.Tracing, "providers", [])
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        listening = Thread(target=server.serve_forever)
        listening.start()
        monkeypatch.setenv(telemetry.ENDPOINT, f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setattr(telemetry.Tracing, "tracer", telemetry.new_tracer("allocator"))
        with telemetry.span("work", telemetry.new_traceparent()):
            pass
        telemetry.flush()
        server.shutdown()
        listening.join()
    ((path, body),) = posted
    assert (path, b"headrace-allocator" in gzip_or_plain(body), b"work" in gzip_or_plain(body)) == ("/v1/traces", True, True)


def gzip_or_plain(body: bytes) -> bytes:
    return gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
