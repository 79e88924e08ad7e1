"""The service of instances, and that a client reads exactly what is shown of them."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest
from google.protobuf.json_format import MessageToDict

from headrace.client import answers, burst_answers
from headrace.contracts.api import instances_pb2 as pb
from headrace.contracts.messages.burst import CheckAnswer, CheckRequest, EndInstanceRequest, OfferCheck, PlanRequest
from headrace.contracts.messages.queries import Answer, ApplyAnswer, Change
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.values.durations import HOUR, MINUTE
from headrace.governance.api.context import CallContext
from headrace.governance.api.instances import check_offers, end_instance, list_instances, list_offers, plan_growth
from headrace.identity.caller import Caller, Role
from headrace.service.answering import Refused
from headrace.views.instances import instances_of, offers_shown, plan_of
from tests.unit.provisioner.cloud import OFFERS, Cloud

ROOT = Caller(Role.PROVIDER_ADMIN, "default", "root")


class FakeConnection:
    """Answers every question with `answer`; `asked`: what was asked, and how."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, bytes]] = []

    async def ask(self, subject: str, payload: bytes, within: float) -> SimpleNamespace:
        assert within > 0
        self.asked.append((subject, payload))
        return SimpleNamespace(data=encode(self.answer))


def call_at(site: Cloud, connection: FakeConnection | None = None) -> CallContext:
    backend = SimpleNamespace(state=site.state, clock=lambda: site.now, connection=connection)
    return CallContext(ROOT, "Method", 5.0, backend)


def as_json(message) -> dict:
    """The JSON of a message, as the gateway writes it."""
    return MessageToDict(message, preserving_proto_field_name=True)


async def test_a_client_reads_the_instances_as_they_are_shown() -> None:
    site = Cloud(offers=OFFERS)
    first, second = site.ordered(2)
    site.made(first)
    site.join(first)
    site.refused(second, "QUOTA")
    site.wait(HOUR)
    shown = as_json(await list_instances(pb.ListInstancesRequest(), call_at(site)))
    assert tuple(map(burst_answers.instance, shown["instances"])) == tuple(instances_of(site.state, site.now))


async def test_a_client_reads_the_offers_as_they_are_shown() -> None:
    site = Cloud(offers=OFFERS)
    (name,) = site.ordered()
    site.refused(name, "CAPACITY", MINUTE)
    shown = as_json(await list_offers(pb.ListOffersRequest(), call_at(site)))
    assert tuple(map(burst_answers.offer, shown["offers"])) == tuple(offers_shown(site.state, site.now))


async def test_a_client_reads_a_plan_as_it_is_shown_and_a_pool_without_one_is_refused() -> None:
    site = Cloud(offers=OFFERS, cap="5")
    shown = as_json(await plan_growth(pb.PlanGrowthRequest(name="pools/cloud", nodes=9), call_at(site)))
    assert burst_answers.growth_plan(shown) == plan_of(site.state, PlanRequest(pool="cloud", nodes=9), site.now)
    with pytest.raises(Refused, match="is not one that creates nodes"):
        await plan_growth(pb.PlanGrowthRequest(name="pools/hall"), call_at(site))


async def test_a_client_reads_the_check_of_offers_as_the_provisioner_answers_it() -> None:
    checks = CheckAnswer(
        pool="cloud", provider="ec2", offers=(OfferCheck(offer="a"), OfferCheck(offer="b", problem="no rights"))
    )
    connection = FakeConnection(Answer(sequence=1, body=msgspec.Raw(encode(checks))))
    shown = as_json(await check_offers(pb.CheckOffersRequest(name="pools/cloud"), call_at(Cloud(), connection)))
    assert burst_answers.offer_checks(shown) == checks
    ((subject, payload),) = connection.asked
    assert (subject, decode(payload, CheckRequest).pool) == ("hr.query.provisioner.check.default.root", "cloud")


async def test_the_provisioner_is_asked_to_end_an_instance_in_the_name_of_the_caller() -> None:
    plan = ApplyAnswer(changes=(Change(kind="instance", name="cloud-1", action="delete"),), applied=True, running=2)
    connection = FakeConnection(Answer(sequence=1, body=msgspec.Raw(encode(plan))))
    site = Cloud()
    shown = as_json(await end_instance(pb.EndInstanceRequest(name="instances/cloud-1"), call_at(site, connection)))
    ((subject, payload),) = connection.asked
    assert (subject, decode(payload, EndInstanceRequest).instance) == ("hr.query.provisioner.end.default.root", "cloud-1")
    assert answers.plan(shown) == plan
    refused = FakeConnection(Answer(sequence=1, code="NOT_FOUND", error="no instance"))
    with pytest.raises(Refused, match="no instance"):
        await end_instance(pb.EndInstanceRequest(name="instances/cloud-1"), call_at(site, refused))
