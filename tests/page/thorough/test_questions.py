"""The seven questions of `docs/page.md`, asked as someone new to the page would ask them, with every click counted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.page.conftest import preempted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser

    from tests.integration.api import Api

PAGE = Path(__file__).parents[3] / "docs" / "page.md"
DOCUMENTED = re.compile(r"^\| (.+\?|Show me .+?) \| .+ \| (\d)", re.MULTILINE)


@pytest.fixture(scope="module")
def api(browser: Browser) -> Iterator[Api]:
    assert browser
    with preempted() as api:
        yield api


class Counting(NamedTuple):
    """A user at the first screen, whose clicks are counted."""

    page: Page
    clicked: list[str]

    def click(self, what: Locator) -> None:
        self.clicked.append(what.inner_text())
        what.click()

    def screen(self, name: str) -> None:
        self.click(self.page.get_by_label("Screens").get_by_role("link", name=name, exact=True))


def which_gpus_idle(user: Counting) -> None:
    expect(user.page.get_by_label("Totals")).to_contain_text("Computing")


def why_a_job_waits(user: Counting) -> None:
    user.click(user.page.get_by_label("Totals").get_by_role("link", name="Waiting"))
    user.click(user.page.get_by_role("row", name="pending").first.get_by_role("link"))
    expect(user.page.get_by_label("Why")).to_contain_text("The cheapest change")


def who_took_gpus(user: Counting) -> None:
    user.screen("Preemptions")
    user.click(user.page.get_by_role("link", name="story", exact=True).first)
    expect(user.page.get_by_label("Was it fair")).to_contain_text("inside its reservation")


def two_more_gpus(user: Counting) -> None:
    user.screen("What if")
    handle = user.page.get_by_label("Limit of dev").first
    handle.fill("6")
    expect(user.page.get_by_label("Outcome")).to_contain_text("Who waits less, who more")


def what_the_cloud_costs(user: Counting) -> None:
    user.screen("Cloud")
    expect(user.page.get_by_label("Instances by stage")).to_contain_text("These have cost")


def how_it_was(user: Counting) -> None:
    user.click(user.page.get_by_role("button", name="Time…"))
    field = user.page.get_by_label("Time to show")
    field.press("Enter")
    expect(user.page.get_by_role("contentinfo")).to_contain_text("as of record")


def is_the_history_whole(user: Counting) -> None:
    user.screen("History")
    expect(user.page.get_by_role("heading", name="The history is whole")).to_be_visible()


QUESTIONS: tuple[Callable[[Counting], None], ...] = (
    which_gpus_idle,
    why_a_job_waits,
    who_took_gpus,
    two_more_gpus,
    what_the_cloud_costs,
    how_it_was,
    is_the_history_whole,
)
"""In the order of the table in the documentation."""


def test_seven_questions_take_as_many_clicks_as_the_documentation_says(opened) -> None:
    documented = DOCUMENTED.findall(PAGE.read_text("utf-8"))
    counted = []
    for ask in QUESTIONS:
        user = Counting(opened("root").page, [])
        ask(user)
        counted.append(str(len(user.clicked)))
    assert counted == [clicks for _, clicks in documented]
