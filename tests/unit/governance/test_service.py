from __future__ import annotations

import asyncio

import pytest

from headrace.contracts.messages.queries import ClaimRequest, NodeRequest
from headrace.contracts.transport.codec import Malformed, encode
from headrace.governance.nodes import cordoning
from headrace.governance.service import RequestHandlers
from headrace.identity.caller import Caller, Role, Unauthenticated
from headrace.identity.signing import SigningKeys
from headrace.service.answering import Refused
from tests.unit.governance.deciding import FakeDeciding


@pytest.fixture
def deciding(site):
    return FakeDeciding(site)


@pytest.fixture
def desk(deciding, tmp_path):
    return RequestHandlers(deciding, SigningKeys(tmp_path), FakeVerifier())


class FakeVerifier:
    """Knows one token: of Eve, whose provider says that Eve is in the group `all`."""

    alone = ""

    async def caller(self, _state, token):
        if token != "eves":
            raise Unauthenticated("the token is not good")
        return Caller(Role.TENANT_MEMBER, "default", "eve", ("all",), expires_at=900, claimed_at=100)


async def ask(desk, what, request):
    return await desk.handlers()[what]("acme", "ann", encode(request))


async def test_an_operation_is_answered_with_its_revision_once_it_is_stated(desk, site):
    answer = await desk.decided(cordoning(NodeRequest(node="w1"), "acme.ann", cordon=True))
    assert (answer.applied, answer.revision, site.state.sequence) == (True, 4, 4)
    with pytest.raises(Refused, match="there is no node w9") as refused:
        await desk.decided(cordoning(NodeRequest(node="w9"), "acme.ann", cordon=True))
    assert refused.value.code == "NOT_FOUND"


async def test_operations_wait_until_the_ledger_has_been_read(desk, deciding):
    deciding.caught_up.clear()
    waiting = asyncio.ensure_future(desk.decided(cordoning(NodeRequest(node="w1"), "acme.ann", cordon=True)))
    await asyncio.sleep(0)
    assert not waiting.done()
    deciding.caught_up.set()
    assert (await waiting).applied


async def test_bytes_that_are_not_a_request_are_malformed(desk):
    for handler in desk.handlers().values():
        with pytest.raises(Malformed):
            await handler("acme", "ann", b'{"token": 3, "used": "x", "instance": 3, "code": 3}')


async def test_an_accident_in_judging_reaches_who_asked_and_the_next_is_served(desk):
    with pytest.raises(ZeroDivisionError):
        await desk.decided(lambda _state, _now: 1 / 0)
    assert (await desk.decided(cordoning(NodeRequest(node="w1"), "acme.ann", cordon=True))).applied


async def test_administrators_verbs_are_not_served_to_the_bus(desk):
    assert set(desk.handlers()) == {"instance-token", "join", "claim", "storage"}


async def test_a_desk_serves_governance_only(tmp_path):
    class Other:
        decider = object()

    with pytest.raises(TypeError):
        RequestHandlers(Other(), SigningKeys(tmp_path), FakeVerifier())


async def test_what_a_providers_token_claims_is_on_record_and_nothing_of_a_bad_one(desk, site):
    await ask(desk, "claim", ClaimRequest(token="eves"))
    await ask(desk, "claim", ClaimRequest(token="eves"))
    assert {bearer: one.groups for bearer, one in site.state.tokens.claims.items()} == {("default", "eve"): ("all",)}
    with pytest.raises(Refused, match="not good"):
        await ask(desk, "claim", ClaimRequest(token="forged"))
