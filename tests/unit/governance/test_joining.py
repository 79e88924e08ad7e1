"""The exchange of an instance's one-time code for its node's token, and what an attacker gets who has read the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.callout.permits import permit
from headrace.contracts import facts as f
from headrace.contracts.messages.burst import InstanceTokenRequest, JoinRequest
from headrace.contracts.messages.tokens import TokenAnswer, TokenRole, read_bearer
from headrace.contracts.transport.codec import encode
from headrace.contracts.values.durations import MINUTE
from headrace.governance import service
from headrace.governance.instances import logins_of_ended
from headrace.governance.service import RequestHandlers
from headrace.identity.caller import Role
from headrace.identity.principals import IssuedToken, resolve
from headrace.identity.signing import SigningKeys
from headrace.identity.verifier import Verifier
from headrace.service.answering import Refused
from tests.unit.governance.deciding import FakeDeciding
from tests.unit.provisioner.cloud import BOOT, Cloud

MINE, THEIRS = "a" * 32, "b" * 32


class Ledger(Cloud):
    """A site that also keeps who wrote last, which governance answers with."""

    def append_facts(self, *facts: f.AnyFact, by: str = "governance") -> int:
        sequence = super().append_facts(*facts, by=by)
        self.state.writers[by] = (sequence, "")
        return sequence


class Deciding(FakeDeciding):
    """The same by the site's clock."""

    def run(self) -> None:
        while facts := self.decider.decide(self.installation.now):
            self.installation.append_facts(*facts)


class Scene:
    """An instance that was ordered, governance, and the clock of both."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.site = Ledger()
        keys = SigningKeys(place)
        self.verifier = Verifier(keys, clock=lambda: self.site.now / 1_000_000)
        self.desk = RequestHandlers(Deciding(self.site), keys, self.verifier)
        monkeypatch.setattr(service, "wall_clock", lambda: self.site.now)
        self.name, self.other = self.site.ordered(2)

    async def code(self, name: str = "") -> TokenAnswer:
        payload = encode(InstanceTokenRequest(instance=name or self.name))
        return await self.desk.handlers()["instance-token"]("default", "provisioner", payload)

    async def join(self, code: str, nonce: str = MINE, name: str = "") -> TokenAnswer:
        payload = encode(JoinRequest(code=code, nonce=nonce))
        return await self.desk.handlers()["join"]("instances", name or self.name, payload)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setattr(
        "jwt.api_jwt.PyJWT._validate_claims", lambda *_, **__: None
    )  # its clock is the machine's; ours is checked
    return Scene(tmp_path, monkeypatch)


async def test_a_code_is_exchanged_for_the_token_of_its_node_with_what_the_pool_promises(scene: Scene) -> None:
    code = await scene.code()
    assert read_bearer(code.token)[::2] == (TokenRole.INSTANCE, scene.name)
    node = await scene.join(code.token)
    assert read_bearer(node.token)[::2] == (TokenRole.NODE, scene.name)
    assert resolve(scene.site.state, IssuedToken(node.id, node.expires_at)).role is Role.NODE
    assert scene.site.state.approvals[scene.name].labels == {"pool": "cloud"}


async def test_an_order_that_is_repeated_has_the_same_code(scene: Scene) -> None:
    code = await scene.code()
    scene.site.wait(MINUTE)
    assert await scene.code() == code
    assert (await scene.code(scene.other)).token != code.token


async def test_an_exchange_whose_answer_was_lost_is_repeated_by_who_made_it(scene: Scene) -> None:
    code = await scene.code()
    assert await scene.join(code.token) == await scene.join(code.token)


async def test_a_code_that_was_used_gives_no_second_token(scene: Scene) -> None:
    code = await scene.code()
    await scene.join(code.token)
    with pytest.raises(Refused, match="was used"):
        await scene.join(code.token, THEIRS)
    nodes = [one for one in scene.site.state.tokens.known.values() if one.role == TokenRole.NODE]
    assert len(nodes) == 1


async def test_a_code_is_for_its_own_instance(scene: Scene) -> None:
    code = await scene.code()
    with pytest.raises(Refused, match="not one of this instance"):
        await scene.join(code.token, name=scene.other)


async def test_a_node_token_is_not_a_code(scene: Scene) -> None:
    node = await scene.join((await scene.code()).token)
    with pytest.raises(Refused, match="not one of this instance"):
        await scene.join(node.token, THEIRS)


async def test_a_code_that_has_expired_is_worth_nothing(scene: Scene) -> None:
    code = await scene.code()
    scene.site.wait(4 * BOOT)
    with pytest.raises(Refused, match="expired"):
        await scene.join(code.token)


async def test_a_code_is_worth_nothing_once_the_instance_is_to_end(scene: Scene) -> None:
    code = await scene.code()
    scene.site.append_facts(f.InstanceReleasedV1(instance=scene.name, cause="operator"), by="provisioner")
    with pytest.raises(Refused, match="not to join any more"):
        await scene.join(code.token)
    with pytest.raises(Refused, match="is to join"):
        await scene.code()


async def test_a_code_is_revoked_once_its_node_has_joined(scene: Scene) -> None:
    code = await scene.code()
    await scene.join(code.token)
    scene.site.made(scene.name)
    scene.site.join(scene.name)
    assert [fact.token for fact in logins_of_ended(scene.site.state)] == [code.id]
    scene.site.append_facts(*logins_of_ended(scene.site.state))
    assert list(logins_of_ended(scene.site.state)) == []
    with pytest.raises(Refused, match="revoked"):
        await scene.join(code.token)


async def test_a_code_allows_nothing_on_the_bus_but_its_exchange(scene: Scene) -> None:
    code = await scene.code()
    caller = resolve(scene.site.state, IssuedToken(code.id, code.expires_at))
    allowed = permit(caller, code.token, 0, scene.site.now // 1_000_000)
    assert (allowed.account, allowed.rights.publish) == ("NODES", (f"hr.query.governance.join.instances.{scene.name}",))
    assert [subject.startswith("_INBOX_t_") for subject in allowed.rights.subscribe] == [True]


@pytest.mark.parametrize("nonce", ["", "short", "A" * 32, "a" * 129])
async def test_a_nonce_that_could_be_guessed_is_refused(scene: Scene, nonce: str) -> None:
    with pytest.raises(Refused, match="nonce"):
        await scene.join((await scene.code()).token, nonce)
