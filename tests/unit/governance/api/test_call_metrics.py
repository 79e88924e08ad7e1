"""Calls are counted by how they ended, whatever ends them."""

from __future__ import annotations

import pytest

from headrace.governance.api.call_metrics import Calls
from headrace.health.health import Health


def cancelled(calls):
    with calls.under("GetJob") as call:
        call.code = "CANCELLED"
        raise KeyError


async def test_calls_are_counted_by_method_and_status_and_while_they_last():
    calls, health = Calls(), Health("governance")
    calls.show(health.metrics)
    with calls.under("ListJobs"):
        assert b"headrace_api_calls_under_way 1.0" in await health.text()
    with calls.under("ListJobs") as call:
        call.code = "NOT_FOUND"
    with pytest.raises(KeyError):
        cancelled(calls)
    text = (await health.text()).decode()
    for line in (
        "headrace_api_calls_under_way 0.0",
        'headrace_api_calls_total{code="OK",method="ListJobs"} 1.0',
        'headrace_api_calls_total{code="NOT_FOUND",method="ListJobs"} 1.0',
        'headrace_api_calls_total{code="CANCELLED",method="GetJob"} 1.0',
        'headrace_api_call_seconds_count{method="ListJobs"} 2.0',
    ):
        assert line in text
