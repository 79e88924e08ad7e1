"""Figures of the page from the tools for developers that Chromium has."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page


def measured(page: Page) -> CDPSession:
    """A session of the developer tools that counts the CPU time of the page's thread."""
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})
    return tools


def metrics(tools: CDPSession) -> dict[str, float]:
    return {one["name"]: one["value"] for one in tools.send("Performance.getMetrics")["metrics"]}
