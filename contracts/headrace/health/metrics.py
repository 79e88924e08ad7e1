"""The metrics of one process: each declared once, computed when they are read. The only registry of metrics.

Strategy: frequent events are counted in plain numbers (a `Histogram` is a list of them), and what can be read from the state is read
when metrics are requested. So a metric costs the measured work almost nothing; Prometheus' own client only writes the text
(`prometheus_text`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

SERIES_MAX = 1_000
"""Maximum number of series per metric; the rest is summed under `OTHER`, so that many policies or nodes cannot fill a metrics database."""
OTHER = "other"

QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Bucket bounds in seconds for what machines do. The performance goals (1, 5, 20, 50 ms) lie at bounds or beside them."""
LONG = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
"""Bucket bounds in seconds for what people and jobs wait for."""

_NAME = re.compile(r"[a-z][a-z0-9_]*[a-z0-9]")

Kind = Literal["gauge", "counter", "histogram"]
Labels = tuple[str, ...]
Values = float | Mapping[Labels, float]


class Histogram:
    """Counts of observations by bucket. `bounds` ascend, in the unit of the metric; the last count is of all above the last bound."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one observation, in the unit of the metric."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def upto(self) -> Iterator[tuple[str, int]]:
        """Cumulative counts as (bound, number of observations up to it); the last bound is `+Inf`."""
        within = 0
        for bound, count in zip((*map(_written, self.bounds), "+Inf"), self.counts, strict=True):
            within += count
            yield bound, within


class MetricSource(NamedTuple):
    """One metric. `name` ends in its unit; `read` returns its value, or values by label; for a histogram, the histograms."""

    name: str
    says: str
    kind: Kind
    labels: Labels
    read: Callable[[], Values | Histogram | Mapping[Labels, Histogram]]

    def values(self) -> Mapping[Labels, float]:
        """Values by label of a gauge or counter, at most `SERIES_MAX`."""
        found = self.read()
        if not isinstance(found, Mapping):
            return {(): found}  # type: ignore[dict-item]
        return _bounded(found, len(self.labels))  # type: ignore[arg-type]

    def histograms(self) -> Mapping[Labels, Histogram]:
        """Histograms by label of a histogram metric."""
        found = self.read()
        return {(): found} if isinstance(found, Histogram) else found  # type: ignore[return-value]


class MetricSources:
    """All metrics of one process. `subscribe` registers a listener that receives each declared metric."""

    def __init__(self) -> None:
        self.all: dict[str, MetricSource] = {}
        self.unreadable: Counter[Labels] = Counter()
        self._listeners: list[Callable[[MetricSource], None]] = []
        help_text = "number of times that a metric could not be read"
        self.counter("headrace_unreadable_figures_total", help_text, lambda: self.unreadable, "figure")

    def gauge(self, name: str, says: str, read: Callable[[], Values], *labels: str) -> None:
        """Declare a value that goes up and down."""
        self._declare(MetricSource(name, says, "gauge", labels, read))

    def counter(self, name: str, says: str, read: Callable[[], Values], *labels: str) -> None:
        """Declare a value that only goes up while the process lives; its name ends in `_total`."""
        if not name.endswith("_total"):
            raise ValueError(f"{name}: a counter's name ends in _total")
        self._declare(MetricSource(name, says, "counter", labels, read))

    def histogram(self, name: str, says: str, bounds: Iterable[float]) -> Histogram:
        """Declare the distribution of a duration; call `observe` on the result."""
        made = Histogram(bounds)
        self._declare(MetricSource(name, says, "histogram", (), lambda: made))
        return made

    def histograms(self, name: str, says: str, read: Callable[[], Mapping[Labels, Histogram]], *labels: str) -> None:
        """Declare a histogram with one series per label values."""
        self._declare(MetricSource(name, says, "histogram", labels, read))

    def subscribe(self, listener: Callable[[MetricSource], None]) -> None:
        """Call `listener` with every metric, present and future."""
        self._listeners.append(listener)
        for metric in self.all.values():
            listener(metric)

    def _declare(self, metric: MetricSource) -> None:
        if _NAME.fullmatch(metric.name) is None:
            raise ValueError(f"invalid metric name {metric.name!r}: use a-z, 0-9 and '_', from a letter on")
        if metric.name in self.all:
            raise ValueError(f"{metric.name} is declared twice")
        self.all[metric.name] = metric
        for listener in self._listeners:
            listener(metric)


def _bounded(values: Mapping[Labels, float], width: int) -> Mapping[Labels, float]:
    if len(values) <= SERIES_MAX:
        return values
    keys = sorted(values)
    kept = {key: values[key] for key in keys[:SERIES_MAX]}
    rest = (OTHER,) * width
    kept[rest] = kept.get(rest, 0) + sum(values[key] for key in keys[SERIES_MAX:])
    return kept


def _written(bound: float) -> str:
    return f"{bound:g}" if bound != int(bound) else f"{int(bound)}.0"
