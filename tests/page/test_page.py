"""The page in Chromium, over a whole installation: what people see, do, and must not see."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import expect

from tests.page.conftest import STRANGE
from tests.page.moments import shows_what_the_state_says
from tests.page.screens import PROVIDERS, SCREENS, inaccessible
from tests.patience import PATIENCE


def test_a_link_logs_in_and_leaves_no_token_in_the_address(opened) -> None:
    page = opened("root").page
    expect(page.get_by_label("Totals")).to_contain_text("GPUs allocated")
    assert "token" not in page.url
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("localStorage.getItem('headrace.token')") is None


def test_the_link_of_the_owner_logs_in_once(browser, api) -> None:
    link = api.run("page").strip()
    assert link.startswith(f"{api.address}/page#code=")
    page = browser.new_context().new_page()
    page.goto(link)
    expect(page.get_by_role("status")).to_contain_text("live")
    assert page.url == f"{api.address}/page#/"
    again = browser.new_context().new_page()
    again.goto(link)
    expect(again.get_by_role("alert")).to_contain_text("it was used already or has expired")
    for opened in (page, again):
        opened.context.close()


def test_a_wrong_token_is_refused_with_the_reason(browser, api) -> None:
    page = browser.new_context().new_page()
    page.goto(f"{api.address}/page")
    page.get_by_label("Token").fill("nonsense")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("token")
    page.context.close()


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_every_screen_is_accessible(opened, scheme) -> None:
    page = (seen := opened("root", color_scheme=scheme)).page
    complaints = []
    for screen, heading in PROVIDERS.items():
        seen.show(screen)
        expect(page.get_by_role("heading", name=heading).first).to_be_visible()
        complaints += [(screen, found) for found in inaccessible(page)]
    assert complaints == []


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_no_screen_is_wider_than_its_window(opened, width) -> None:
    page = (seen := opened("root", viewport={"width": width, "height": 800})).page
    for screen, heading in PROVIDERS.items():
        seen.show(screen)
        expect(page.get_by_role("heading", name=heading).first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, screen


def test_what_happens_appears_without_reloading(opened, api) -> None:
    page = opened("root").page
    (job,) = api.submit("eve", "emca", ["true"])
    expect(page.get_by_label("What happens")).to_contain_text(job["name"][-6:])


def test_lists_are_read_to_their_end_however_fast_records_come(opened, api) -> None:
    """Records come faster than answers: what is being read for the record before is not given up for the next one."""
    page = (seen := opened("alice")).page
    seen.show("jobs")
    expect(page.get_by_role("row").filter(has_text=api.waits["name"][-6:])).to_be_visible()
    shapes: list[str] = []
    page.on("request", lambda request: shapes.append(request.url) if "/audit/timeline" in request.url else None)
    slow = {"offline": False, "latency": 700, "downloadThroughput": -1, "uploadThroughput": -1}
    page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", slow)
    (first, *_) = jobs = api.submit("alice", "acme", ["true"])
    row = page.get_by_role("row").filter(has_text=first["name"][-6:])
    began = time.monotonic()
    while not row.count() and time.monotonic() - began < PATIENCE:
        jobs += api.submit("alice", "acme", ["true"])
        page.wait_for_timeout(100)
    expect(row).to_have_count(1, timeout=1)
    assert len(shapes) <= 1 + (time.monotonic() - began) / 10, "the shapes on the time bar are read every ten seconds at most"
    api.done("alice", "POST", "/v1/tenants/acme/jobs:cancel", {"jobs": [job["name"] for job in jobs]})


def test_how_much_held_gpus_compute_is_shown_to_those_whose_jobs_hold_them(opened, api) -> None:
    expect(opened("root").page.get_by_label("Totals")).to_contain_text("40% of what is held")
    expect(opened("alice").page.get_by_label("Totals")).to_contain_text("40%")
    answer = api.done("eve", "GET", "/v1/utilization")
    assert (len(answer["devices"]["name"]), set(answer["devices"]["busy"])) == (1, {40})
    assert "acme" not in str(answer)


def test_an_invoice_is_shown_by_its_lines_and_is_not_final_before_the_month_has_ended(opened) -> None:
    page = (seen := opened("alice")).page
    seen.show("invoice")
    expect(page.get_by_text("not final yet")).to_be_visible()
    expect(page.get_by_role("columnheader", name="quantity")).to_be_visible()


@pytest.mark.parametrize("who", ["alice", "boss"])
def test_instances_and_offers_are_for_the_provider(opened, api, who) -> None:
    page = (seen := opened(who)).page
    expect(page.get_by_role("link", name="Cloud")).to_have_count(0)
    seen.show("cloud")
    expect(page.get_by_role("heading", name="What happens")).to_be_visible()
    assert [api.ask(who, "GET", f"/v1/{what}").status for what in ("instances", "offers")] == [403, 403]


def test_a_waiting_job_says_why_and_what_would_start_it(opened, api) -> None:
    page = (seen := opened("alice")).page
    seen.show("jobs")
    page.get_by_role("row").filter(has_text=api.waits["name"][-6:]).get_by_role("link").click()
    why = page.get_by_label("Why")
    expect(why).to_contain_text("AT_POLICY_LIMIT")
    expect(why).to_contain_text("uses 4 gpu of a limit of 4")
    page.get_by_role("tab", name="Output").click()
    expect(page.get_by_label("Output")).to_be_visible()


def test_the_output_of_a_running_job_is_shown(opened, api) -> None:
    page = (seen := opened("alice")).page
    seen.show(f"jobs/acme/{api.alices[0]['name'].split('/')[-1]}")
    page.get_by_role("tab", name="Output").click()
    expect(page.get_by_label("Output")).to_contain_text("hello from")


def test_the_clock_can_be_turned_back_and_the_link_leads_to_the_same_moment(opened, api) -> None:
    page = (seen := opened("root")).page
    expect(page.get_by_label("Totals")).to_contain_text("of 8")
    page.get_by_label("Moment that is shown").fill("3")
    expect(page.get_by_role("contentinfo")).to_contain_text("as of record 3")
    expect(page.get_by_label("Totals")).to_contain_text("0 jobs")
    assert page.url.endswith("@3")
    page.keyboard.press("l")
    expect(page.get_by_role("contentinfo")).to_contain_text("now, record")
    seen.show("now@3")
    expect(page.get_by_role("contentinfo")).to_contain_text("as of record 3")
    assert api.address


def test_the_page_shows_what_the_state_says_at_10_records(opened, api) -> None:
    shows_what_the_state_says(opened("root"), api, 10)


def test_a_change_is_planned_before_it_is_applied(opened, api) -> None:
    page = (seen := opened("boss")).page
    seen.show("policies")
    page.get_by_role("button", name="Change…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Limit, in GPUs").fill("nonsense")
    expect(dialog.get_by_role("alert")).to_contain_text("limit")
    seen.messages.clear()  # the browser notes every refused request
    dialog.get_by_label("Limit, in GPUs").fill("5")
    expect(dialog.get_by_label("Plan")).to_contain_text("limit.gpu: 4 -> 5")
    dialog.get_by_label("Reason").fill("a test")
    dialog.get_by_role("button", name="Apply").click()
    expect(dialog.get_by_role("status")).to_contain_text("Applied as revision")
    assert api.done("boss", "GET", "/v1/tenants/acme/policies/dev")["limit"] == {"gpu": "5"}
    api.done("root", "PATCH", "/v1/tenants/acme/policies/dev", {"limit": {"gpu": "4"}}, update_mask="limit")


def test_a_drain_that_is_scheduled_is_shown_before_it_begins_and_then_no_more(opened, api) -> None:
    page = (seen := opened("root")).page
    expect(page.get_by_label("Totals")).to_contain_text("of 8")
    expect(page.get_by_label("Maintenance")).to_have_count(0)
    (node,) = [node["name"] for node in api.done("root", "GET", "/v1/nodes")["nodes"]]
    begins = datetime.now(UTC) + timedelta(days=30)
    api.done("root", "POST", f"/v1/{node}:drain", {"begin_time": begins.isoformat(), "reason": "a new fan"})
    try:
        name = node.removeprefix("nodes/")
        expect(page.get_by_label("Maintenance")).to_contain_text(
            re.compile(rf"{name} from \d+ \w+ {begins.year}, .* drain · a new fan")
        )
        seen.show("nodes")
        expect(page.get_by_role("row", name=name)).to_contain_text(
            re.compile(rf"drain from \d+ \w+ {begins.year}, .* a new fan · by .*root")
        )
        other = opened("eve").page
        expect(other.get_by_label("Maintenance")).to_contain_text("drain")
        expect(other.get_by_label("Maintenance")).not_to_contain_text("fan")
    finally:
        api.done("root", "POST", f"/v1/{node}:uncordon", {})
    seen.show("now")
    expect(page.get_by_label("Maintenance")).to_have_count(0)


def test_a_submit_has_its_verdict_before_it_is_sent(opened) -> None:
    page = (seen := opened("alice")).page
    seen.show("jobs")
    page.get_by_role("button", name="Submit a job…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Command, run by a shell").fill("echo from the page")
    expect(dialog).to_contain_text("It would be admitted to dev/half")
    dialog.get_by_label("Name").fill("typed")
    dialog.get_by_role("button", name="Submit").click()
    expect(page.get_by_role("heading", name="typed")).to_be_visible()


def test_names_are_shown_as_text_and_run_no_script(opened) -> None:
    page = (seen := opened("root")).page
    seen.show("jobs")
    page.get_by_label("Tenant").select_option("emca")
    expect(page.get_by_role("row").filter(has_text=STRANGE)).to_be_visible()


@pytest.mark.parametrize("who", ["alice", "boss"])
def test_a_tenant_sees_no_word_of_another(opened, who) -> None:
    page = (seen := opened(who)).page
    for screen, heading in SCREENS.items():
        seen.show(screen)
        expect(page.get_by_role("heading", name=heading).first).to_be_visible()
        for word in ("emca", "eve", "chief", "vault", "onerror"):
            found = page.evaluate("word => new RegExp(`\\\\b${word}\\\\b`).test(document.documentElement.outerHTML)", word)
            assert not found, (screen, word)


def test_a_viewer_may_look_and_not_change(opened) -> None:
    page = (seen := opened("viewer")).page
    seen.show("policies")
    expect(page.get_by_role("heading", name="acme")).to_be_visible()
    expect(page.get_by_role("button", name="Change…")).to_have_count(0)


def test_the_page_goes_on_when_governance_is_started_again(opened, api) -> None:
    page = (seen := opened("root")).page
    api.run("restart", "governance")
    seen.messages.clear()  # the browser notes that the connection broke off
    (job,) = api.submit("eve", "emca", ["true"])
    expect(page.get_by_label("What happens")).to_contain_text(job["name"][-6:])
    expect(page.get_by_role("status")).to_contain_text("live")
    seen.messages.clear()
