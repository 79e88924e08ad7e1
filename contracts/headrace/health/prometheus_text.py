"""The metrics of a process in the text format of Prometheus. Imported when they are first asked for: 2 MiB that few processes need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.health.metrics import MetricSource, MetricSources


def prometheus_text(metrics: MetricSources) -> bytes:
    """All metrics declared by now, and those of the operating system's process."""
    registry = CollectorRegistry()
    registry.register(_Read(metrics))
    ProcessCollector(registry=registry)
    text: bytes = generate_latest(registry)
    return text


class _Read(Collector):
    """The adapter that Prometheus' client reads the metrics from."""

    def __init__(self, metrics: MetricSources) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        for metric in self._metrics.all.values():
            try:
                family = _family(metric)
            except Exception:  # noqa: BLE001 - one metric that cannot be read must not hide the others
                self._metrics.unreadable[metric.name,] += 1
                continue
            yield family

    def describe(self) -> Iterator[Metric]:
        return iter(())


def _family(metric: MetricSource) -> Metric:
    if metric.kind == "histogram":
        histogram = HistogramMetricFamily(metric.name, metric.says, labels=metric.labels)
        for labels, one in metric.histograms().items():
            histogram.add_metric(labels, list(one.upto()), one.total)
        return histogram
    make = GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily
    family = make(metric.name, metric.says, labels=metric.labels)
    for labels, value in metric.values().items():
        family.add_metric(labels, value)
    return family
