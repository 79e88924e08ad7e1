"""`headrace burst ...` on canned answers."""

from __future__ import annotations

import json

from headrace.contracts.messages.burst import CheckAnswer, InstanceView, OfferCheck, OfferView, PlanAnswer, PlannedInstance
from headrace.contracts.messages.queries import ApplyAnswer, Change

ONE = InstanceView(instance="cloud-1", pool="cloud", stage="joined", provider="local", offer="spot", price="1.10", cost="0.55")


def test_instances_are_listed(headrace):
    out = headrace("burst list", instances=(ONE,)).out.splitlines()
    assert [line.split() for line in out] == [
        ["INSTANCE", "POOL", "STAGE", "OFFER", "PRICE", "COST"],
        ["cloud-1", "cloud", "joined", "spot", "1.10", "0.55"],
    ]
    assert json.loads(headrace("burst list --json", instances=(ONE,)).out)[0]["instance"] == "cloud-1"
    assert headrace("burst list", instances=()).out == "No instances; a pool with `burst:` orders them.\n"


def test_offers_are_listed(headrace):
    offer = OfferView(pool="cloud", offer="spot", provider="local", price="1.10", closed="CAPACITY")
    out = headrace("burst offers", offers=(offer,)).out.splitlines()
    assert out[1].split() == ["cloud", "spot", "local", "1.10", "CAPACITY"]
    assert headrace("burst offers", offers=()).out == "No offers; a pool with `burst:` has some.\n"


def test_offers_are_checked_and_the_command_fails_if_one_would_be_refused(headrace):
    offers = tuple(
        OfferView(pool=pool, offer=offer, provider=provider)
        for pool, offer, provider in (("cloud", "east", "ec2"), ("cloud", "west", "ec2"), ("later", "default", "none"))
    )
    checks = CheckAnswer(
        pool="cloud", provider="ec2", offers=(OfferCheck(offer="east"), OfferCheck(offer="west", problem="no such image"))
    )
    ran = headrace("burst offers --check", offers=offers, check_offers=checks)
    assert [line.split() for line in ran.out.splitlines()] == [
        ["POOL", "OFFER", "PROVIDER", "CHECK"],
        ["cloud", "east", "ec2", "ok"],
        ["cloud", "west", "ec2", "no", "such", "image"],
        ["later", "default", "none"],
    ]
    shown = json.loads(headrace("burst offers --check --json", offers=offers, check_offers=checks).out)
    assert [one["check"] for one in shown] == ["ok", "no such image", ""]


def test_a_plan_is_told_in_lines(headrace):
    planned = PlannedInstance(offer="spot", market="spot", price="1.10", estimate="0.26")
    plan = PlanAnswer(pool="cloud", provider="local", instances=(planned, planned), estimate="0.52", notes=("max_nodes 2",))
    assert headrace("burst plan cloud --nodes 3", plan_growth=plan).out.splitlines() == [
        "2 instances by offer spot (spot), at 1.10 an hour, 0.26 each at least",
        "together at least 0.52",
        "max_nodes 2",
    ]
    nothing = PlanAnswer(pool="cloud", provider="local")
    assert headrace("burst plan cloud", plan_growth=nothing).out == "nothing would be ordered\n"


def test_an_instance_is_ended(headrace):
    answer = ApplyAnswer(changes=(Change(kind="instance", name="cloud-1", action="delete"),), applied=True, running=2)
    ran = headrace("burst end cloud-1", end_instance=answer)
    assert ran.out == "cloud-1 will end: 2 jobs have to stop first\n"
