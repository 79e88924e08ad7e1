"""Metrics of API calls: number, status and duration."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headrace.health.metrics import QUICK, Histogram

if TYPE_CHECKING:
    from headrace.health.metrics import MetricSources

FINE = "OK"


class CallInProgress:
    """A call in progress. `code`: its status unless it is changed."""

    __slots__ = ("code",)

    def __init__(self) -> None:
        self.code = FINE


class Calls:
    """Metrics of all calls, by method."""

    def __init__(self) -> None:
        self.under_way = 0
        self._ended: Counter[tuple[str, ...]] = Counter()
        self._took: dict[tuple[str, ...], Histogram] = {}

    @contextmanager
    def under(self, method: str) -> Iterator[CallInProgress]:
        """Count a call of `method` while the block runs. A stream's duration depends on its reader, but is counted as well."""
        call, began = CallInProgress(), time.perf_counter()
        self.under_way += 1
        try:
            yield call
        finally:
            self.under_way -= 1
            self._ended[method, call.code] += 1
            took = self._took.get((method,))
            if took is None:
                took = self._took[method,] = Histogram(QUICK)
            took.observe(time.perf_counter() - began)

    def show(self, metrics: MetricSources) -> None:
        metrics.counter(
            "headrace_api_calls_total", "calls of the API, by method and gRPC status", lambda: self._ended, "method", "code"
        )
        metrics.histograms("headrace_api_call_seconds", "calls of the API, by method", lambda: self._took, "method")
        metrics.gauge("headrace_api_calls_under_way", "calls that are being served", lambda: self.under_way)
