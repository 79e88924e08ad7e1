"""A real browser, and an installation of two tenants with jobs that run and wait."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.integration.api import Api, installation
from tests.patience import PATIENCE

CHROMIUM = shutil.which("chromium") or ""

STRANGE = "<img src=x onerror=alert(1)>"
"""Name of a job that would run a script if the page took it for markup."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, until the tests of this module have ended: its driver runs an event loop meanwhile, which others have to be without."""
    if not CHROMIUM:
        pytest.skip("chromium is not installed: apt install chromium brings it")
    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def api(browser: Browser) -> Iterator[Api]:
    """Both tenants have running jobs, and acme has one that waits at its limit."""
    assert browser
    with installation(model="H100-80GB+busy40") as api:
        for who in ("alice", "boss", "eve"):
            tenant = "emca" if who == "eve" else "acme"
            api.tokens[who] = api.run("token", "create", "--user", who, "--tenant", tenant).strip()
        running = api.submit("alice", "acme", *[["sh", "-c", "echo hello from $HEADRACE_JOB_NAME; sleep 1000"]] * 8)
        api.alices = running
        for job in running:
            api.until("alice", job["name"], "running")
        api.waits = api.submit("alice", "acme", ["sleep", "1"])[0]
        api.done(
            "eve",
            "POST",
            "/v1/tenants/emca/jobs:submit",
            {"queue": "dev/half", "jobs": [{"command": ["sleep", "1000"], "name": STRANGE}]},
        )
        yield api


class Opened(NamedTuple):
    """A page in which someone is logged in, and what its console said."""

    page: Page
    messages: list[str]

    def show(self, screen: str) -> None:
        self.page.evaluate("screen => { location.hash = '#/' + screen }", screen)


@pytest.fixture
def opened(browser: Browser, api: Api) -> Iterator[Callable[..., Opened]]:
    """Opens the page as the bearer of a token; every test ends without a word in the console."""
    contexts, messages = [], []

    def open_as(who: str, **settings: object) -> Opened:
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 800}} | settings))
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE * 1000)
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("dialog", lambda dialog: messages.append(dialog.message))
        page.goto(f"{api.address}/page#token={api.tokens[who]}")
        expect(page.get_by_role("status")).to_contain_text("live")
        return Opened(page, messages)

    yield open_as
    for context in contexts:
        context.close()
    assert messages == []
