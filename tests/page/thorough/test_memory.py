"""Memory of the page and of the gateway while facts come for `HEADRACE_PAGE_SECONDS` (`make test-page-memory`: half an hour)."""

from __future__ import annotations

import os
import time
from pathlib import Path

from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.pidfile import read_running
from tests.page.measuring import measured, metrics

SECONDS = float(os.environ.get("HEADRACE_PAGE_SECONDS", "45"))
RATE = 500
"""Facts a second that are asked for; on a busy machine there are fewer, and the figure says how many."""
JOBS_AT_ONCE = 100
WARM = 5
"""Turns before the first measurement: the page then holds as many events as it keeps."""
PAGE_GROWTH_MAX, GATEWAY_GROWTH_MAX = 8, 16
"""MiB by which each may grow."""


def resident(data: Path, part: str) -> float:
    """MiB of a part's process."""
    running = read_running(Installation(data))
    assert running is not None
    child = running.child(part)
    assert child is not None
    lines = Path("/proc", str(child.pid), "status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def test_memory_stays_flat_while_facts_come(opened, api, says) -> None:
    page = opened("root").page
    page.get_by_label("Which events").select_option("all")
    tools = measured(page)

    def sizes() -> tuple[float, float]:
        """MiB of the page after a collection of garbage, and of the gateway."""
        tools.send("HeapProfiler.collectGarbage")
        return metrics(tools)["JSHeapUsedSize"] / 2**20, resident(api.data, "gateway")

    def turn() -> None:
        """Twice as many facts as jobs: each waits behind the policy's limit, and ends."""
        jobs = api.submit("alice", "acme", *[["true"]] * JOBS_AT_ONCE)
        api.done("alice", "POST", "/v1/tenants/acme/jobs:cancel", {"jobs": [job["name"] for job in jobs]})

    for _ in range(WARM):
        turn()
    (page_first, gateway_first), governance_first = sizes(), resident(api.data, "governance")
    began, turns, seen = time.monotonic(), 0, []
    while (passed := time.monotonic() - began) < SECONDS:
        turn()
        turns += 1
        if turns % 10 == 0:
            seen.append(sizes())
        page.wait_for_timeout(max(0.0, 1000 * (2 * JOBS_AT_ONCE * turns / RATE - passed)))
    page_last, gateway_last = sizes()
    says(
        f"memory over {SECONDS:.0f} s of {2 * JOBS_AT_ONCE * turns / (time.monotonic() - began):.0f} facts/s: page {page_first:.1f}, then "
        f"{page_last:.1f} MiB; gateway {gateway_first:.1f}, then {gateway_last:.1f} MiB; governance, which keeps ended jobs for an hour, "
        f"{governance_first:.0f}, then {resident(api.data, 'governance'):.0f} MiB"
    )
    assert page_last - page_first < PAGE_GROWTH_MAX, seen
    assert gateway_last - gateway_first < GATEWAY_GROWTH_MAX, seen
