"""Users see their own tenant only: every role on every screen, in the document and in every answer; and no text runs as a script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.integration.api import Api
from tests.page.conftest import STRANGE, two_tenants
from tests.page.screens import PROVIDERS, SCREENS, inaccessible

OTHERS = ("emca", "eve", "chief", "vault", "secret-of-emca")
"""Words of the tenant emca, which users of acme may not read."""
READ = {"/v1/preemptions", "/v1/audit/verification", "/v1/audit/timeline"} | {
    f"/v1/tenants/acme/{what}" for what in ("jobs", "usage", "statement", "audit/lines")
}
"""What the page asks for on these screens at least."""


@pytest.fixture(scope="module")
def api(browser: Browser) -> Iterator[Api]:
    """Both tenants have jobs; everything that a user may write freely tries to run a script."""
    assert browser
    with two_tenants() as api:
        job = {"name": "secret-of-emca", "labels": {"note": STRANGE}, "command": ["sh", "-c", f"echo '{STRANGE}'; sleep 1000"]}
        (made,) = api.done("eve", "POST", "/v1/tenants/emca/jobs:submit", {"queue": "dev/half", "jobs": [job], "wait": True})[
            "jobs"
        ]
        api.until("eve", made["name"], "running")
        api.strange = made
        policy = {
            "tenant": "emca",
            "name": "dev",
            "group": "dev",
            "profiles": ["half"],
            "reservation": {"gpu": 1},
            "limit": {"gpu": 7},
        }
        body = {"documents": {"policies": [policy]}, "reason": STRANGE}
        api.revision = api.done("chief", "POST", "/v1/documents:apply", body)["revision"]
        api.tokens["ci"] = api.run("token", "create", "--service-account", "ci", "--tenant", "acme").strip()
        yield api


def found(text: str) -> list[str]:
    return [word for word in OTHERS if re.search(rf"\b{word}\b", text)]


@pytest.mark.parametrize("who", ["alice", "boss", "ci"])
def test_neither_screens_nor_answers_have_a_word_of_another_tenant(opened, api, who) -> None:
    page = (seen := opened(who)).page
    texts: list[tuple[str, str]] = []

    def note(route: Route) -> None:
        answer = route.fetch()
        if answer.ok:
            texts.append((urlsplit(route.request.url).path, answer.text()))
        route.fulfill(response=answer)

    page.route(re.compile(r"/v1/(?!overview:watch)"), note)
    page.reload()
    expect(page.get_by_role("status")).to_contain_text("live")
    job = api.alices[0]["name"].split("/")[-1]
    screens = SCREENS | {"whatif": "", "cloud": "", f"jobs/acme/{job}": "unnamed", f"history/{api.revision}": "Record"}
    for screen, heading in screens.items():
        seen.show(screen)
        if heading:
            expect(page.get_by_role("heading", name=heading).first).to_be_visible()
        expect(page.get_by_text(re.compile("^Reading"))).to_have_count(0)
        assert found(page.content()) == [], screen
    assert {path for path, _ in texts} >= READ
    assert [(path, words) for path, text in texts if (words := found(text))] == []
    page.unroute_all(behavior="ignoreErrors")
    seen.messages.clear()  # the browser notes what was refused


@pytest.mark.parametrize("who", ["root", "viewer", "boss", "alice"])
def test_every_role_sees_its_screens_without_a_complaint_of_axe(opened, who) -> None:
    page = (seen := opened(who)).page
    complaints = []
    for screen, heading in (PROVIDERS if who in ("root", "viewer") else SCREENS).items():
        seen.show(screen)
        expect(page.get_by_role("heading", name=heading).first).to_be_visible()
        complaints += [(screen, found) for found in inaccessible(page)]
    assert complaints == []


def test_who_may_only_look_has_nothing_to_change(opened, api) -> None:
    page = (seen := opened("viewer")).page
    for screen in PROVIDERS:
        seen.show(screen)
        expect(page.get_by_role("button", name=re.compile("Change…|Apply"))).to_have_count(0)
    job = api.alices[0]["name"].split("/")[-1]
    assert api.ask("viewer", "POST", f"/v1/tenants/acme/jobs/{job}:cancel", {}).status == 403


def harmless(page: Page) -> None:
    """The text is there as text, and made no element."""
    expect(page.get_by_text(STRANGE).first).to_be_visible()
    assert page.locator("img[src=x]").count() == 0


def test_names_labels_reasons_and_output_are_shown_as_text(opened, api) -> None:
    page = (seen := opened("root")).page
    seen.show("jobs")
    page.get_by_label("Tenant").select_option("emca")
    harmless(page)
    (named,) = [job for job in api.done("root", "GET", "/v1/tenants/emca/jobs")["jobs"] if job.get("display_name") == STRANGE]
    seen.show(f"jobs/emca/{named['name'].split('/')[-1]}")
    harmless(page)
    seen.show(f"jobs/emca/{api.strange['name'].split('/')[-1]}")
    page.get_by_role("tab", name="Output").click()
    harmless(page)
    page.keyboard.press("/")
    page.get_by_label("Search for").fill("onerror")
    harmless(page)
    page.keyboard.press("Escape")
    seen.show("team/emca/dev")
    harmless(page)
    seen.show(f"history/{api.revision}")
    expect(page.get_by_label("Content")).to_contain_text("onerror")
    assert page.locator("img[src=x]").count() == 0


def test_nothing_is_loaded_from_elsewhere_and_no_source_map_is_sent(opened, api) -> None:
    page = opened("root").page
    names = page.evaluate("performance.getEntriesByType('resource').map(one => one.name)")
    assert [name for name in names if not name.startswith(api.address)] == []
    scripts = [name for name in names if name.endswith(".js")]
    assert [api.ask("", "GET", name.removeprefix(api.address) + ".map").status for name in scripts] == [404]
    assert [
        name for name in scripts if b"sourceMappingURL" in (api.ask("", "GET", name.removeprefix(api.address)).body or b"")
    ] == []
