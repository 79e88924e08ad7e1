"""The page answers questions: who took GPUs and was it fair, what a change would do, and whether the history is whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.integration.api import Api
from tests.page.conftest import preempted
from tests.page.screens import inaccessible


@pytest.fixture(scope="module")
def api(browser: Browser) -> Iterator[Api]:
    assert browser
    with preempted() as api:
        yield api


def test_a_preemption_is_told_with_its_reasons_its_steps_and_what_it_cost(opened) -> None:
    page = (seen := opened("root")).page
    page.keyboard.press("4")
    page.get_by_role("link", name="story", exact=True).first.click()
    fair = page.get_by_label("Was it fair")
    expect(fair).to_contain_text("ops held 0 of its reservation of 1 and asked for 0.5: inside its reservation.")
    expect(fair).to_contain_text("dev held 4 and had 2 reserved: 2 were borrowed")
    expect(fair).to_contain_text("The GPUs went to the job for which they were taken")
    expect(page.get_by_label("Ladder")).to_contain_text(re.compile(r"told .*term .*verify"))
    expect(page.get_by_label("Three times")).to_contain_text("until the slowest job had ended")
    expect(page.get_by_label("After").get_by_role("img")).to_be_visible()
    assert inaccessible(page) == []
    assert seen.messages == []


def test_who_lost_gpus_finds_the_story_on_the_page_of_the_job(opened, api) -> None:
    page = (seen := opened("alice")).page
    (victim,) = api.story["victims"]
    seen.show("/".join(("jobs", "acme", victim["job"]["job"].split("/")[3])))
    expect(page.get_by_label("Attempts")).to_contain_text("preempted")
    page.get_by_role("link", name="who took it, and why").click()
    expect(page.get_by_role("heading", name="took GPUs back from 1 job")).to_be_visible()


def test_a_team_sees_what_it_holds_who_waits_and_what_was_taken_back(opened) -> None:
    page = (seen := opened("boss")).page
    seen.show("policies")
    page.get_by_role("link", name="dev", exact=True).click()
    expect(page.get_by_label("Team totals")).to_contain_text("of 2 reserved")
    expect(page.get_by_label("Who of the team").get_by_role("row", name="alice")).to_contain_text("3 1/2")
    expect(page.get_by_label("Taken back").get_by_role("row").nth(1)).to_contain_text("ops")
    assert inaccessible(page) == []


def test_a_reservation_is_tried_by_its_handle_and_nothing_is_applied(opened, api) -> None:
    page = (seen := opened("boss")).page
    seen.show("whatif")
    handle = page.get_by_label("Limit of dev")
    for _ in range(2):
        handle.press("ArrowRight")
    expect(page.get_by_label("Outcome")).to_contain_text("Who waits less, who more")
    assert page.url.endswith("#/whatif/acme/dev%3D2%2C5")
    assert inaccessible(page) == []
    page.reload()
    expect(page.get_by_label("Limit of dev")).to_have_value("5")
    expect(page.get_by_label("Outcome")).to_contain_text("Both runs took")
    assert api.done("boss", "GET", "/v1/tenants/acme/policies/dev")["limit"] == {"gpu": "4"}


def test_the_browser_checks_every_record_itself(opened) -> None:
    page = (seen := opened("root")).page
    seen.show("history")
    expect(page.get_by_label("Is the history whole")).to_contain_text("The history is whole")
    page.get_by_role("button", name="Check all records in this browser").click()
    expect(page.get_by_label("Check it yourself").get_by_role("status")).to_contain_text("every one is as it was written")
    page.get_by_label("Look at a record").fill("3")
    page.get_by_role("button", name="Open").click()
    expect(page.get_by_label("Bytes")).to_contain_text(", the same")
    assert inaccessible(page) == []


def test_a_member_sees_that_the_history_is_whole_and_not_the_records_of_others(opened) -> None:
    page = (seen := opened("alice")).page
    seen.show("history")
    expect(page.get_by_label("Is the history whole")).to_contain_text("The history is whole")
    expect(page.get_by_role("heading", name="Check it yourself")).to_have_count(0)
    seen.show("history/3")
    expect(page.get_by_label("Facts")).to_be_visible()
    expect(page.get_by_label("Bytes")).to_have_count(0)


def test_a_charge_leads_to_its_jobs_their_facts_and_the_bytes_of_a_record(opened) -> None:
    page = (seen := opened("root")).page
    seen.show("invoice")
    page.get_by_label("Tenant").select_option("acme")
    page.get_by_role("button", name="dev").first.click()
    page.get_by_label("Jobs of this line").get_by_role("link").first.click()
    page.get_by_role("row", name="R15").get_by_role("link").first.click()
    expect(page.get_by_label("Bytes")).to_contain_text("lease.granted.v1")


@pytest.mark.parametrize(("who", "queue"), [("alice", "dev/half"), ("oscar", "ops/half")])
def test_a_member_sees_the_start_and_the_cost_of_a_job_before_it_is_submitted(opened, who, queue) -> None:
    page = (seen := opened(who)).page
    seen.show("jobs")
    page.get_by_role("button", name="Submit a job…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Queue").select_option(queue)
    dialog.get_by_label("Command, run by a shell").fill("true")
    expect(dialog).to_contain_text("It would be admitted")
    expect(dialog).to_contain_text(re.compile("Starts (at once|after .*) · costs|Does not start within a day"))


def test_a_time_is_shown_by_typing_it(opened, api) -> None:
    page = opened("root").page
    records = api.done("root", "GET", "/v1/audit/records", page_size=1000)["records"]
    page.keyboard.press("t")
    page.get_by_label("Time to show").fill(records[-1]["store_time"][:19])
    page.keyboard.press("Enter")
    expect(page.get_by_role("contentinfo")).to_contain_text("as of record")
