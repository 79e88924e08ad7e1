"""What the screen Now says of use, and the same from the answer of `GetState`: the page has no fold of its own."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.integration.api import Api
    from tests.page.conftest import Opened


def shows_what_the_state_says(seen: Opened, api: Api, count: int) -> None:
    """Hold the page against the state after `count` records by chance."""
    tip = int(api.done("root", "GET", "/v1/overview")["sequence"])
    for record in sorted(random.Random(30).sample(range(2, tip), min(count, tip - 2))):
        seen.show(f"now@{record}")
        expect(seen.page.get_by_role("contentinfo")).to_contain_text(f"as of record {record:,}")
        assert drawn(seen.page) == stated(state_at(api, record)), record


def state_at(api: Api, record: int) -> dict[str, Any]:
    """The state behind a record, with the jobs of all its pages."""
    page = state = api.done("root", "GET", "/v1/audit/state", at=str(record), page_size=1000)
    while token := page.get("next_page_token"):
        page = api.done("root", "GET", "/v1/audit/state", at=str(record), page_size=1000, page_token=token)
        state["active"] += page.get("active", [])
    return state


def drawn(page: Page) -> dict[str, Any]:
    """What the screen Now says of use: totals, and each policy's GPUs."""
    totals = {
        one.get_by_role("heading").inner_text(): one.locator("b").inner_text()
        for one in page.get_by_label("Totals").locator(".panel").all()
    }
    parts = page.locator("section[aria-label='Pool hq'] ul li").all_inner_texts()
    return {
        "used": Fraction(totals["GPUs allocated"]),
        "waiting": int(totals["Waiting"].replace(",", "")),
        "running": int(totals["Running"].replace(",", "")),
        "by policy": {part.rsplit(maxsplit=1)[0]: Fraction(part.rsplit(maxsplit=1)[1]) for part in parts},
    }


def stated(state: dict[str, Any]) -> dict[str, Any]:
    """The same from the answer of GetState."""
    by_policy: Counter[str] = Counter()
    for job in state.get("active", []):
        for lease in job.get("leases", []):
            amount = Fraction(lease.get("amounts", {}).get("gpu", "0"))
            by_policy[f"{job['job'].split('.')[0]}/{job['queue'].split('/')[0]}"] += amount  # type: ignore[assignment]
    keys = [key for pool in state.get("pools", []) for key in pool.get("keys", []) if key["key"] == "gpu"]
    return {
        "used": sum((Fraction(key.get("used", "0")) for key in keys), Fraction(0)),
        "waiting": sum(job["state"] == "pending" for job in state.get("active", [])),
        "running": sum(job["state"] in ("running", "preempting", "stopping") for job in state.get("active", [])),
        "by policy": dict(by_policy),
    }
