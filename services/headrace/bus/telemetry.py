"""Logs of a service as JSON lines on stderr, and traces and metrics by OTLP if an endpoint is configured.

Strategy: without `OTEL_EXPORTER_OTLP_ENDPOINT` nothing of OpenTelemetry is imported, and a span is an object that passes the traceparent
on unchanged.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import sys
from collections.abc import Awaitable, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import structlog

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

    from headrace.health.metrics import Labels, MetricSource, MetricSources

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
LEVEL = "HEADRACE_LOG_LEVEL"
METRICS_EVERY = 30
"""Interval of metrics in seconds."""

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")

T = TypeVar("T")

_acting: ContextVar[str] = ContextVar("service", default="")
"""The service that the running task belongs to, in a process of several; "": the process."""

_log = structlog.get_logger("headrace.bus")


class Span(Protocol):
    """A piece of work inside a trace; `traceparent` is passed to the work that continues it ("" outside of a trace)."""

    traceparent: str

    def __enter__(self) -> Self:
        """Begin the span here."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """End the span; an error is recorded and propagates."""


class _Silent:
    """A span that is not recorded."""

    __slots__ = ("traceparent",)

    def __init__(self, traceparent: str) -> None:
        self.traceparent = traceparent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        return


class _Recorded:
    """A span of OpenTelemetry that continues a remote one."""

    __slots__ = ("_open", "traceparent")

    def __init__(self, tracer: Tracer, name: str, parent: re.Match[str], attributes: dict[str, Any]) -> None:
        from opentelemetry import trace  # noqa: PLC0415 - imported only with tracing

        remote = trace.SpanContext(
            int(parent[1], 16), int(parent[2], 16), is_remote=True, trace_flags=trace.TraceFlags(int(parent[3], 16))
        )
        context = trace.set_span_in_context(trace.NonRecordingSpan(remote))
        self._open = tracer.start_span(name, context, attributes=attributes)
        own = self._open.get_span_context()
        self.traceparent = f"00-{own.trace_id:032x}-{own.span_id:016x}-{own.trace_flags:02x}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self._open.record_exception(error)
        self._open.end()


class Tracing:
    """Providers that `configure` has set up for this process."""

    tracer: Tracer | None = None
    tracers: dict[str, Tracer] = {}
    """Those of the services of a process of several."""
    providers: list[TracerProvider] = []
    metrics: MeterProvider | None = None


def configure(process: str, services: Sequence[str] = ()) -> None:
    """Set up the logs and, if configured, the traces and metrics of this process and of its services."""
    configure_logs(process)
    if os.environ.get(ENDPOINT):
        Tracing.tracer = new_tracer(process)
        Tracing.tracers = {name: tracer for name in services if (tracer := new_tracer(name)) is not None}
        configure_metrics(process)


async def acting_as(service: str, work: Awaitable[T]) -> T:
    """Do work in the name of a service: its log lines and spans, and those of tasks that it starts, carry this name."""
    token = _acting.set(service)
    try:
        return await work
    finally:
        _acting.reset(token)


def configure_logs(service: str) -> None:
    """One JSON object a line on stderr: `time`, `level`, `service`, `event`, and the event's fields; also for other libraries."""
    level = logging.getLevelNamesMapping().get(os.environ.get(LEVEL, "INFO").upper(), logging.INFO)
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        _Named(service),
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    foreign = logging.StreamHandler(sys.stderr)
    foreign.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, structlog.processors.JSONRenderer()],
        )
    )
    logging.basicConfig(handlers=[foreign], level=max(level, logging.WARNING), force=True)


def new_tracer(service: str) -> Tracer | None:
    """Spans that are sent by OTLP over HTTP, configured by the environment variables of OpenTelemetry."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        _log.error("traces_off", reason=f"{ENDPOINT} is set, but {error.name} is not installed")
        return None
    provider = TracerProvider(resource=Resource.create({"service.name": f"headrace-{service}"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    Tracing.providers.append(provider)
    return provider.get_tracer("headrace")


def configure_metrics(service: str) -> None:
    """Send metrics by OTLP over HTTP, every half minute, configured by the environment variables of OpenTelemetry."""
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
        from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    except ImportError as error:
        _log.error("metrics_off", reason=f"{ENDPOINT} is set, but {error.name} is not installed")
        return
    reader = PeriodicExportingMetricReader(OTLPMetricExporter(), export_interval_millis=METRICS_EVERY * 1_000)
    resource = Resource.create({"service.name": f"headrace-{service}"})
    Tracing.metrics = MeterProvider(metric_readers=[reader], resource=resource)


def send(metrics: MetricSources, service: str) -> None:
    """Send the metrics of a service, under their own names, whenever metrics are sent; nothing if metrics are not configured.

    A histogram is sent as three counters, as in Prometheus' text: `_bucket` by `le`, `_sum`, `_count`.
    """
    if Tracing.metrics is not None:
        metrics.subscribe(lambda metric: _bridged(metric, service))


def _bridged(metric: MetricSource, service: str) -> None:
    from opentelemetry.metrics import CallbackOptions, Observation  # noqa: PLC0415 - imported only with metrics

    if Tracing.metrics is None:
        return
    meter = Tracing.metrics.get_meter(f"headrace.{service}")

    def named(labels: Labels) -> dict[str, str]:
        return dict(zip(metric.labels, labels, strict=True))

    def values(_: CallbackOptions) -> list[Observation]:
        return [Observation(value, named(labels)) for labels, value in metric.values().items()]

    def sums(_: CallbackOptions) -> list[Observation]:
        return [Observation(one.total, named(labels)) for labels, one in metric.histograms().items()]

    def counts(_: CallbackOptions) -> list[Observation]:
        return [Observation(sum(one.counts), named(labels)) for labels, one in metric.histograms().items()]

    def buckets(_: CallbackOptions) -> list[Observation]:
        found = metric.histograms().items()
        return [Observation(within, named(labels) | {"le": bound}) for labels, one in found for bound, within in one.upto()]

    if metric.kind == "gauge":
        meter.create_observable_gauge(metric.name, callbacks=[values], description=metric.says)
    elif metric.kind == "counter":
        meter.create_observable_counter(metric.name, callbacks=[values], description=metric.says)
    else:
        for ending, read in (("sum", sums), ("count", counts), ("bucket", buckets)):
            meter.create_observable_counter(f"{metric.name}_{ending}", callbacks=[read], description=metric.says)


def flush() -> None:
    """Send what has not been sent, at the end of the process."""
    for provider in Tracing.providers:
        provider.shutdown()
    if Tracing.metrics is not None:
        Tracing.metrics.shutdown()


def span(name: str, traceparent: str, **attributes: str | int | bool) -> Span:
    """Context manager of a span in the trace of `traceparent`; not recorded if that is "" or malformed."""
    tracer = Tracing.tracers.get(_acting.get(), Tracing.tracer)
    if tracer is None or not traceparent:
        return _Silent(traceparent)
    parent = _TRACEPARENT.fullmatch(traceparent)
    return _Recorded(tracer, name, parent, attributes) if parent else _Silent("")


def new_traceparent() -> str:
    """Traceparent of a new trace; "" if traces are not configured."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01" if Tracing.tracer is not None else ""


class _Named:
    """Log processor that adds the name of the service, or else of the process, to every line."""

    def __init__(self, process: str) -> None:
        self._process = process

    def __call__(self, _logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event["service"] = _acting.get() or self._process
        return event
