"""GPU models that a pool governs (R43), on the screens that show and change amounts of GPUs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.integration.api import Api, installation
from tests.page.screens import inaccessible

MODEL = "gpu:H100-80GB"
DOCUMENTS = {
    "tenants": [
        {
            "name": "acme",
            "admins": ["boss"],
            "shares": [{"pool": "hq", "reservation": {"gpu": 4, MODEL: 4}, "limit": {"gpu": 6}}],
        }
    ],
    "pools": [{"name": "hq", "selector": {"site": "hq"}, "price": {"gpu": "2.50"}, "capacity": {MODEL: 8}}],
    "policies": [
        {
            "tenant": "acme",
            "name": "dev",
            "group": "dev",
            "profiles": ["half"],
            "reservation": {"gpu": 2, MODEL: 2},
            "limit": {"gpu": 4, MODEL: 3},
        }
    ],
}


@pytest.fixture(scope="module")
def api(browser: Browser) -> Iterator[Api]:
    """The policy of alice may hold 3 H100, and holds them; one more of its jobs waits."""
    assert browser
    with installation() as api:
        api.done("root", "POST", "/v1/documents:apply", {"documents": DOCUMENTS, "reason": "models are governed"})
        api.give_tokens(alice="acme")
        for job in api.submit("alice", "acme", *[["sleep", "1000"]] * 6):
            api.until("alice", job["name"], "running")
        (api.waits,) = api.submit("alice", "acme", ["sleep", "1"])
        yield api


def test_a_pool_and_a_policy_show_their_governed_models_beside_all_gpus(opened) -> None:
    page = (seen := opened("root")).page
    expect(page.get_by_label("Pool hq").get_by_label("Governed models")).to_contain_text("H100-80GB")
    expect(page.get_by_label("Pool hq").get_by_label("Governed models")).to_contain_text("3 used · 5 free · 8 governed")
    for screen, place in (("policies", "Policy acme/dev"), ("team/acme/dev", "Models of the team")):
        seen.show(screen)
        row = page.get_by_label(place).get_by_label("Governed models").get_by_role("row").nth(1)
        assert [cell.inner_text() for cell in row.get_by_role("cell").all()] == ["H100-80GB", "3", "2", "1", "3"]
        assert inaccessible(page) == []


def test_why_shows_the_model_that_is_missing_and_suggests_no_other_limit_of_all_gpus(opened, api) -> None:
    page = (seen := opened("root")).page
    seen.show(f"jobs/acme/{api.waits['name'].split('/')[-1]}")
    why = page.get_by_label("Why")
    expect(why).to_contain_text("AT_POLICY_LIMIT")
    expect(why).to_contain_text("asks for 0.5 H100-80GB")
    expect(why.get_by_role("link", name="instead of")).to_have_count(0)


def test_a_limit_of_a_model_is_dragged_in_what_if_and_stands_in_the_address(opened) -> None:
    page = (seen := opened("root")).page
    seen.show("whatif")
    page.get_by_label("Limit of dev, H100-80GB").first.press("ArrowRight")
    expect(page.get_by_label("Outcome")).to_contain_text("Who waits less, who more")
    assert page.url.endswith("#/whatif/acme/dev%40H100-80GB%3D2%2C3.5")
    page.reload()
    expect(page.get_by_label("Limit of dev, H100-80GB").first).to_have_value("3.5")


def test_a_limit_of_a_model_is_changed_in_the_policy_and_nothing_else_with_it(opened, api) -> None:
    page = (seen := opened("root")).page
    seen.show("policies")
    page.get_by_label("Policy acme/dev").get_by_role("button", name="Change").click()
    page.get_by_label("Limit of H100-80GB").fill("4")
    expect(page.get_by_label("Plan")).to_contain_text(MODEL)
    page.get_by_label("Reason").fill("vision needs it")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("status").filter(has_text="Applied")).to_be_visible()
    found = api.done("root", "GET", "/v1/tenants/acme/policies/dev")
    assert (found["limit"], found["reservation"]) == ({"gpu": "4", MODEL: "4"}, {"gpu": "2", MODEL: "2"})
