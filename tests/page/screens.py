"""The screens of the page: their addresses, and a heading that each of them has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from axe_playwright_python.sync_playwright import Axe

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCREENS = {
    "now": "What happens",
    "jobs": "Jobs",
    "policies": "acme",
    "team/acme/dev": "dev",
    "preemptions": "Preemptions",
    "nodes": "Nodes",
    "usage": "Usage",
    "invoice": "Invoice",
    "history": "The history is whole",
}
PROVIDERS = SCREENS | {"whatif": "What if", "cloud": "Cloud", "history/3": "Record 3"}
"""The screens of those who see all tenants."""


def inaccessible(page: Page) -> list[Any]:
    """What axe objects to on the screen that is shown: the rule, and the elements."""
    found = Axe().run(page)
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found.response["violations"]]
