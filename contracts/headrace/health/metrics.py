"""The figures of one process: each declared once, read whenever somebody asks. The one registry there is.

Strategy: what happens often is counted in plain numbers (a `Histogram` is a list of them), and what can be read from the state is read
when it is asked for. So a figure costs the work that is measured nothing that shows; Prometheus' own client only writes the text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

SERIES_MAX = 1_000
"""Of one figure; what is beyond is added up under `OTHER`, so that no number of policies or nodes fills a database of figures."""
OTHER = "other"

QUICK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Seconds: what the machine does by itself. The goals of speed (1, 5, 20, 50 ms) lie at bounds or beside them."""
LONG = (0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 86_400.0)
"""Seconds: what people and jobs wait for."""

_NAME = re.compile(r"[a-z][a-z0-9_]*[a-z0-9]")

Kind = Literal["gauge", "counter", "histogram"]
Labels = tuple[str, ...]
Values = float | Mapping[Labels, float]


class Histogram:
    """How often what took how long. `bounds` ascend, in the unit of the figure; the last count is of all beyond."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """It took so long, once more."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def upto(self) -> Iterator[tuple[str, int]]:
        """(bound, so many within it), the last one for all."""
        within = 0
        for bound, count in zip((*map(_written, self.bounds), "+Inf"), self.counts, strict=True):
            within += count
            yield bound, within


class Figure(NamedTuple):
    """One figure. `name` ends in its unit; `read` gives its value, or values by label; of a histogram, the histograms."""

    name: str
    says: str
    kind: Kind
    labels: Labels
    read: Callable[[], Values | Histogram | Mapping[Labels, Histogram]]

    def values(self) -> Mapping[Labels, float]:
        """Those of a gauge or counter, no more than `SERIES_MAX`."""
        found = self.read()
        if not isinstance(found, Mapping):
            return {(): found}  # type: ignore[dict-item]
        return _bounded(found, len(self.labels))  # type: ignore[arg-type]

    def histograms(self) -> Mapping[Labels, Histogram]:
        """Those of a histogram."""
        found = self.read()
        return {(): found} if isinstance(found, Histogram) else found  # type: ignore[return-value]


class Figures:
    """All figures of one process. `heard`: who is told of each one that is declared, and of those that are there."""

    def __init__(self) -> None:
        self.all: dict[str, Figure] = {}
        self.unreadable: Counter[Labels] = Counter()
        self._listeners: list[Callable[[Figure], None]] = []
        self._registry = CollectorRegistry()
        self._registry.register(_Read(self))
        ProcessCollector(registry=self._registry)
        said = "so often a figure could not be read when it was asked for"
        self.counter("headrace_unreadable_figures_total", said, lambda: self.unreadable, "figure")

    def gauge(self, name: str, says: str, read: Callable[[], Values], *labels: str) -> None:
        """What goes up and down."""
        self._declare(Figure(name, says, "gauge", labels, read))

    def counter(self, name: str, says: str, read: Callable[[], Values], *labels: str) -> None:
        """What only goes up while the process lives; its name ends in `_total`."""
        if not name.endswith("_total"):
            raise ValueError(f"{name}: a counter's name ends in _total")
        self._declare(Figure(name, says, "counter", labels, read))

    def histogram(self, name: str, says: str, bounds: Iterable[float]) -> Histogram:
        """How long something takes; `observe` what comes back."""
        made = Histogram(bounds)
        self._declare(Figure(name, says, "histogram", (), lambda: made))
        return made

    def histograms(self, name: str, says: str, read: Callable[[], Mapping[Labels, Histogram]], *labels: str) -> None:
        """The same by label."""
        self._declare(Figure(name, says, "histogram", labels, read))

    def tell(self, hear: Callable[[Figure], None]) -> None:
        """Tell of every figure, those to come included."""
        self._listeners.append(hear)
        for figure in self.all.values():
            hear(figure)

    def text(self) -> bytes:
        """All of them, as Prometheus reads them."""
        written: bytes = generate_latest(self._registry)
        return written

    def families(self) -> Iterator[Metric]:
        """All of them but the process' own."""
        for figure in self.all.values():
            try:
                family = _family(figure)
            except Exception:  # noqa: BLE001 - one figure that cannot be read must not hide the others
                self.unreadable[figure.name,] += 1
                continue
            yield family

    def _declare(self, figure: Figure) -> None:
        if _NAME.fullmatch(figure.name) is None:
            raise ValueError(f"{figure.name!r} is no name of a figure")
        if figure.name in self.all:
            raise ValueError(f"{figure.name} is declared twice")
        self.all[figure.name] = figure
        for hear in self._listeners:
            hear(figure)


class _Read(Collector):
    """What Prometheus' client asks."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        return self._figures.families()

    def describe(self) -> Iterator[Metric]:
        return iter(())


def _family(figure: Figure) -> Metric:
    if figure.kind == "histogram":
        histogram = HistogramMetricFamily(figure.name, figure.says, labels=figure.labels)
        for labels, one in figure.histograms().items():
            histogram.add_metric(labels, list(one.upto()), one.total)
        return histogram
    make = GaugeMetricFamily if figure.kind == "gauge" else CounterMetricFamily
    family = make(figure.name, figure.says, labels=figure.labels)
    for labels, value in figure.values().items():
        family.add_metric(labels, value)
    return family


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
