from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.values.durations import DAY, SECOND, parse_time
from headrace.governance.calendars import AHEAD, BEHIND, RENEWED, TimeZones, next_renewal, renewed
from headrace.governance.objects import applied, placed
from tests.unit.governance.conftest import documents

NOW = parse_time("2026-11-21T12:00:00Z")
ZONES = TimeZones(lambda zone, since, _until: ((since, 3_600),) if zone == "Europe/Berlin" else None, lambda: ["Europe/Berlin"])
WINDOW = '{days: [mon], from: "08:00", to: "20:00", timezone: %s}'


def policy(zone, **more):
    budgets = f"budgets: [{{key: gpu, hours: 1, timezone: {more['budget']}}}]" if more else "budgets: []"
    return f"policies: [{{name: p, group: all, profiles: [one], windows: [{WINDOW % zone}], {budgets}}}]"


def berlin(now):
    return f.CalendarStatedV1(zone="Europe/Berlin", offsets=((now - BEHIND, 3_600),), until=now + AHEAD)


def test_the_clocks_a_policy_needs_are_stated_with_it_once(site):
    plan = site.plan(policy("Europe/Berlin", budget="Europe/Berlin"), zones=ZONES, now=NOW)
    assert plan.facts[0] == berlin(NOW)
    assert len(plan.facts) == 2
    site.append_facts(*plan.facts)
    assert len(site.plan(policy("Europe/Berlin"), zones=ZONES, now=NOW + 299 * DAY).facts) == 1
    assert len(site.plan(policy("Europe/Berlin"), zones=ZONES, now=NOW + 301 * DAY).facts) == 2


def test_utc_needs_no_calendar(site):
    assert [type(fact) for fact in site.plan(policy("UTC"), zones=ZONES, now=NOW).facts] == [f.PolicyAppliedV1]


def test_an_invalid_zone_is_refused_where_it_stands(site):
    plan = site.plan(policy("Europe/Berln", budget="Europe/Berrlin"), zones=ZONES, now=NOW)
    assert plan.facts == ()
    assert plan.errors == (
        "policies[0].windows[0].timezone: there is no time zone Europe/Berln; did you mean Europe/Berlin?",
        "policies[0].budgets[0].timezone: there is no time zone Europe/Berrlin; did you mean Europe/Berlin?",
    )


def test_a_machine_without_a_database_says_so(site):
    plan = site.plan(policy("Europe/Berlin"), zones=TimeZones(lambda *_: None, list), now=NOW)
    assert plan.errors == (
        (
            "policies[0].windows[0].timezone: there is no time zone Europe/Berlin; "
            "this machine has no time zone database: install the package tzdata, or write UTC"
        ),
    )


def test_what_is_in_use_is_stated_again_before_it_runs_out(site):
    assert next_renewal(site.state) is None
    site.append_facts(berlin(NOW), *(applied(document, "a.b") for _, document, _ in placed(documents(policy("Europe/Berlin")))))
    due = NOW + AHEAD - RENEWED
    assert next_renewal(site.state) == due
    assert renewed(site.state, ZONES, due - SECOND) == []
    (stated,) = renewed(site.state, ZONES, due)
    assert stated == berlin(due)
    site.append_facts(stated)
    assert renewed(site.state, ZONES, due) == []
    site.write("policies: [{name: p, group: all, profiles: [one]}]")
    assert next_renewal(site.state) is None
