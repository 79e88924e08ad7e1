"""The node's part of a job's trace: `node.start`, from the order to the process, and `node.run`, from the order to the end.

Strategy: without `OTEL_EXPORTER_OTLP_ENDPOINT` nothing of OpenTelemetry is imported, and the traceparent of the order goes to the job
unchanged; with it the job's own spans are children of `node.run`.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Protocol

import structlog

from headrace.contracts.messages.orders import StartOrder

if TYPE_CHECKING:
    from opentelemetry.trace import Span

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NANOSECONDS = 1_000

_log = structlog.get_logger("headrace.node_executor")


class Tracing(Protocol):
    """Spans of leases. Moments in microseconds since 1970."""

    def starting(self, order: StartOrder, at: int) -> str:
        """Begin the spans of an order; returns the job's HEADRACE_TRACEPARENT."""

    def started(self, lease: str, at: int) -> None:
        """The lease's process runs."""

    def ended(self, lease: str, at: int, outcome: str) -> None:
        """The lease is over, in whichever phase."""

    def close(self) -> None:
        """Send the spans that were not sent yet."""


class Silent:
    """No recording: the job gets the traceparent of the submit unchanged."""

    def starting(self, order: StartOrder, at: int) -> str:  # noqa: ARG002 - the face of all tracings
        """Return the order's own traceparent."""
        return order.trace

    def started(self, lease: str, at: int) -> None:
        """Does nothing; not recorded."""

    def ended(self, lease: str, at: int, outcome: str) -> None:
        """Does nothing; not recorded."""

    def close(self) -> None:
        """Does nothing; not recorded."""


class Recorded:
    """Spans of OpenTelemetry, sent by OTLP over HTTP as configured by its environment variables."""

    def __init__(self, node: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

        resource = Resource.create({"service.name": "headrace-node", "headrace.node": node})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("headrace")
        self._open: dict[str, tuple[Span, Span]] = {}

    def starting(self, order: StartOrder, at: int) -> str:
        """Begin both spans, so that the job can be told the second one's id before it runs."""
        from opentelemetry import trace  # noqa: PLC0415

        parent = _TRACEPARENT.fullmatch(order.trace)
        if parent is None:
            return ""
        flags = trace.TraceFlags(int(parent[3], 16))
        remote = trace.SpanContext(int(parent[1], 16), int(parent[2], 16), is_remote=True, trace_flags=flags)
        context = trace.set_span_in_context(trace.NonRecordingSpan(remote))
        attributes = {"headrace.lease": order.lease, "headrace.queue": order.queue}
        start = self._tracer.start_span("node.start", context, attributes=attributes, start_time=at * _NANOSECONDS)
        run = self._tracer.start_span("node.run", context, attributes=attributes, start_time=at * _NANOSECONDS)
        self._open[order.lease] = (start, run)
        own = run.get_span_context()
        return f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"

    def started(self, lease: str, at: int) -> None:
        """End the span `node.start`."""
        if lease in self._open:
            self._open[lease][0].end(at * _NANOSECONDS)

    def ended(self, lease: str, at: int, outcome: str) -> None:
        """End `node.run`, and `node.start` if the job never started."""
        start, run = self._open.pop(lease, (None, None))
        if start is None or run is None:
            return
        if start.is_recording():
            start.end(at * _NANOSECONDS)
        run.set_attribute("headrace.outcome", outcome)
        run.end(at * _NANOSECONDS)

    def close(self) -> None:
        """Send the spans that were not sent yet; OpenTelemetry bounds the time that takes."""
        self._provider.shutdown()


def tracing(node: str) -> Tracing:
    """Return `Recorded` if an endpoint is configured and OpenTelemetry is installed, else `Silent`."""
    if not os.environ.get(ENDPOINT):
        return Silent()
    try:
        return Recorded(node)
    except ImportError as error:
        _log.error("traces_off", reason=f"{ENDPOINT} is set, but {error.name} is not installed")
        return Silent()
