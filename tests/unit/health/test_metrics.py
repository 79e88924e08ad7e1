"""Figures are declared once, read when they are asked for, and never too many."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.health.metrics import OTHER, SERIES_MAX, Histogram, MetricSources
from headrace.health.prometheus_text import prometheus_text


def samples(metrics):
    """All but the process' own and the count of failures."""
    return {
        (sample.name, *(f"{key}={value}" for key, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(prometheus_text(metrics).decode())
        for sample in family.samples
        if not sample.name.startswith(("process_", "headrace_unreadable"))
    }


def test_a_figure_is_read_each_time_and_written_as_prometheus_reads_it():
    metrics, now = MetricSources(), {"lag": 3}
    metrics.gauge("headrace_lag_records", "how far behind", lambda: now["lag"])
    metrics.counter("headrace_ended_total", "by how", lambda: {("failed",): 2, ("succeeded",): 5}, "state")
    assert samples(metrics) == {
        ("headrace_lag_records",): 3,
        ("headrace_ended_total", "state=failed"): 2,
        ("headrace_ended_total", "state=succeeded"): 5,
    }
    now["lag"] = 4
    assert samples(metrics)["headrace_lag_records",] == 4


def test_a_histogram_counts_what_lies_within_each_bound():
    metrics = MetricSources()
    took = metrics.histogram("headrace_took_seconds", "how long", (0.0005, 0.01, 1.0))
    for value in (0.0001, 0.0005, 0.002, 1.0, 7.0):
        took.observe(value)
    assert samples(metrics) == {
        ("headrace_took_seconds_bucket", "le=0.0005"): 2,
        ("headrace_took_seconds_bucket", "le=0.01"): 3,
        ("headrace_took_seconds_bucket", "le=1.0"): 4,
        ("headrace_took_seconds_bucket", "le=+Inf"): 5,
        ("headrace_took_seconds_count",): 5,
        ("headrace_took_seconds_sum",): pytest.approx(8.0026),
    }


def test_histograms_may_come_by_label():
    metrics, parts = MetricSources(), {("grace",): Histogram((1.0,)), ("signal",): Histogram((1.0,))}
    metrics.histograms("headrace_part_seconds", "parts", lambda: parts, "part")
    parts["grace",].observe(2.0)
    found = samples(metrics)
    assert (found["headrace_part_seconds_count", "part=grace"], found["headrace_part_seconds_count", "part=signal"]) == (1, 0)


def test_one_figure_that_cannot_be_read_hides_no_other_and_is_counted():
    metrics = MetricSources()
    metrics.gauge("headrace_broken", "broken", lambda: 1 // 0)
    metrics.gauge("headrace_whole", "whole", lambda: 1)
    assert samples(metrics) == {("headrace_whole",): 1}
    assert b'headrace_unreadable_figures_total{figure="headrace_broken"} 1.0' in prometheus_text(metrics)


def test_what_is_beyond_the_most_series_is_added_up_so_that_sums_stay_right():
    metrics = MetricSources()
    metrics.gauge("headrace_gpus", "many", lambda: {(f"p{n:05}", "x"): 1 for n in range(SERIES_MAX + 10)}, "policy", "what")
    found = samples(metrics)
    assert (len(found), sum(found.values())) == (SERIES_MAX + 1, SERIES_MAX + 10)
    assert found["headrace_gpus", f"policy={OTHER}", f"what={OTHER}"] == 10


@pytest.mark.parametrize("name", ["", "Upper", "with-dash", "ends_", "1st"])
def test_a_name_is_lower_case_words(name):
    with pytest.raises(ValueError, match="invalid metric name"):
        MetricSources().gauge(name, "says", lambda: 1)


def test_a_counter_says_that_it_is_one_and_no_figure_is_declared_twice():
    metrics = MetricSources()
    with pytest.raises(ValueError, match="ends in _total"):
        metrics.counter("headrace_done", "says", lambda: 1)
    metrics.gauge("headrace_done", "says", lambda: 1)
    with pytest.raises(ValueError, match="declared twice"):
        metrics.gauge("headrace_done", "says", lambda: 2)


def test_who_wants_to_be_told_hears_of_those_there_are_and_those_to_come():
    metrics, names = MetricSources(), []
    metrics.gauge("headrace_first", "says", lambda: 1)
    metrics.subscribe(lambda metric: names.append(metric.name))
    metrics.gauge("headrace_second", "says", lambda: 1)
    assert names == ["headrace_unreadable_figures_total", "headrace_first", "headrace_second"]
