from __future__ import annotations

import sys

import pytest

from headrace.node_executor.reporting import tracing

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_without_an_endpoint_the_job_gets_the_trace_as_it_came(monkeypatch, make_order) -> None:
    monkeypatch.delenv(tracing.ENDPOINT, raising=False)
    silent = tracing.tracing("gpu01")
    assert silent.starting(make_order(trace=TRACE), 1) == TRACE
    silent.started("x", 2)
    silent.ended("x", 3, "exited")
    silent.close()


def test_without_opentelemetry_an_endpoint_is_a_line_in_the_log(monkeypatch) -> None:
    monkeypatch.setenv(tracing.ENDPOINT, "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    assert isinstance(tracing.tracing("gpu01"), tracing.Silent)


@pytest.fixture
def recorded(monkeypatch):
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    monkeypatch.setattr("opentelemetry.exporter.otlp.proto.http.trace_exporter.OTLPSpanExporter", lambda: exporter)
    monkeypatch.setattr("opentelemetry.sdk.trace.export.BatchSpanProcessor", SimpleSpanProcessor)
    return tracing.Recorded("gpu01"), exporter


def spans(exporter) -> list[tuple[str, int, int]]:
    return [(span.name, span.start_time, span.end_time) for span in exporter.get_finished_spans()]


def test_a_lease_is_two_spans_that_continue_the_submit_and_the_job_continues_the_second(recorded, make_order) -> None:
    traces, exporter = recorded
    given = traces.starting(make_order(trace=TRACE), 10)
    traces.started(make_order().lease, 20)
    traces.ended(make_order().lease, 30, "exited")
    assert spans(exporter) == [("node.start", 10_000, 20_000), ("node.run", 10_000, 30_000)]
    start, run = exporter.get_finished_spans()
    assert {f"{span.context.trace_id:032x}" for span in (start, run)} == {"0af7651916cd43dd8448eb211c80319c"}
    assert {f"{span.parent.span_id:016x}" for span in (start, run)} == {"b7ad6b7169203331"}
    assert given == f"00-0af7651916cd43dd8448eb211c80319c-{run.context.span_id:016x}-01"
    assert run.attributes["headrace.outcome"] == "exited"


def test_a_lease_that_never_started_ends_both_spans(recorded, make_order) -> None:
    traces, exporter = recorded
    traces.starting(make_order(trace=TRACE), 10)
    traces.ended(make_order().lease, 30, "refused")
    traces.ended(make_order().lease, 40, "refused")
    assert spans(exporter) == [("node.start", 10_000, 30_000), ("node.run", 10_000, 30_000)]


def test_a_job_without_a_trace_has_none(recorded, make_order) -> None:
    traces, exporter = recorded
    assert traces.starting(make_order(trace="nonsense"), 10) == ""
    traces.started(make_order().lease, 20)
    traces.ended(make_order().lease, 30, "exited")
    assert spans(exporter) == []
