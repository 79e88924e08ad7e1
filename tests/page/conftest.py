"""A real browser, and an installation of two tenants with jobs that run and wait."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from headrace.host.layouts import DEFAULT
from tests.integration.api import Api, installation, until
from tests.patience import PATIENCE

STRANGE = "<img src=x onerror=alert(1)>"
"""Name of a job that would run a script if the page took it for markup."""


@pytest.fixture(scope="module")
def chromium() -> str:
    """The program of the browser; the one that has no windows takes half the processor time."""
    return shutil.which("chromium-headless-shell") or shutil.which("chromium") or ""


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """Chromium, until the tests of this module have ended: its driver runs an event loop meanwhile, which others have to be without."""
    if not chromium:
        pytest.skip("chromium is not installed: apt install chromium chromium-headless-shell brings it")
    expect.set_options(timeout=PATIENCE * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def api(browser: Browser) -> Iterator[Api]:
    """Both tenants have running jobs, and acme has one that waits at its limit."""
    assert browser
    with two_tenants() as api:
        yield api


@contextmanager
def two_tenants() -> Iterator[Api]:
    """An installation in which alice of acme has jobs that run and one that waits, and eve of emca a job with a strange name."""
    with installation(model="H100-80GB+busy40", layout=DEFAULT) as api:
        api.give_tokens(alice="acme", boss="acme", eve="emca", chief="emca")
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


OPS = {
    "groups": [{"tenant": "acme", "name": "ops", "members": ["oscar"]}],
    "policies": [{"tenant": "acme", "name": "ops", "group": "ops", "profiles": ["half"], "reservation": {"gpu": 1}}],
}


@contextmanager
def preempted() -> Iterator[Api]:
    """All 8 GPUs are held; oscar's job is inside the reservation of its policy, so a job of alice, who has borrowed, had to yield."""
    with installation() as api:
        api.done("root", "POST", "/v1/documents:apply", {"documents": OPS, "reason": "another team"})
        api.give_tokens(alice="acme", boss="acme", eve="emca", oscar="acme")
        held = [("alice", job) for job in api.submit("alice", "acme", *[["sleep", "1000"]] * 8)]
        held += [("eve", job) for job in api.submit("eve", "emca", *[["sleep", "1000"]] * 8)]
        for who, job in held:
            api.until(who, job["name"], "running")
        (job,) = api.submit("oscar", "acme", ["sleep", "1000"], queue="ops/half")
        api.until("oscar", job["name"], "running")
        (api.story,) = until(lambda: settled(api))
        yield api


def settled(api: Api) -> list[Any]:
    """The preemptions that have ended."""
    found = api.done("root", "GET", "/v1/preemptions").get("preemptions", [])
    return [one for one in found if one.get("settle_time")]


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print a figure although pytest captures what tests print."""

    def say(text: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n  {text}")

    return say


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
