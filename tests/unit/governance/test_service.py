from __future__ import annotations

import asyncio

import pytest

from headrace.bus.text_encryption import KeyGone, Keyring
from headrace.contracts.messages.queries import (
    ApplyAnswer,
    ApplyRequest,
    Change,
    ClaimRequest,
    DeleteRequest,
    DocumentView,
    EraseRequest,
    GetAnswer,
    GetRequest,
    NodeRequest,
)
from headrace.contracts.messages.tokens import RevokeRequest, TokenRequest, TokensRequest, read_bearer
from headrace.contracts.transport.codec import Malformed, encode
from headrace.contracts.values.durations import DAY
from headrace.governance.calendars import Zones
from headrace.governance.decide import Governance
from headrace.governance.service import RequestHandlers, find, fitting
from headrace.identity.caller import Caller, Role, Unauthenticated
from headrace.identity.signing import SigningKeys
from headrace.service.answering import Refused

ZONES = Zones(lambda _zone, since, _until: ((since, 3_600),), lambda: ["Europe/Berlin"])


class FakeDeciding:
    """A loop that decides whenever it is nudged, until nothing is left to say."""

    def __init__(self, installation):
        self.installation = installation
        self.decider = Governance(installation.state, ZONES)
        self.caught_up = asyncio.Event()
        self.caught_up.set()

    def wake(self):
        asyncio.get_running_loop().call_soon(self.run)

    def run(self):
        while facts := self.decider.decide(0):
            self.installation.say(*facts)


@pytest.fixture
def desk(site, tmp_path):
    return RequestHandlers(FakeDeciding(site), SigningKeys(tmp_path), Keyring(tmp_path / "keys"), FakeVerifier())


class FakeVerifier:
    """Knows one token: of Eve, whose provider says that Eve is in the group `all`."""

    alone = ""

    async def caller(self, _state, token):
        if token != "eves":
            raise Unauthenticated("the token is not good")
        return Caller(Role.TENANT_MEMBER, "default", "eve", ("all",), expires_at=900, claimed_at=100)


async def ask(desk, what, request):
    return await desk.handlers()[what]("acme", "ann", encode(request))


async def test_documents_are_applied_by_whom_the_subject_names(desk, site):
    answer = await ask(desk, "apply", ApplyRequest(documents={"users": [{"handle": "bob"}]}, reason="new here"))
    assert (answer.applied, answer.revision) == (True, 4)
    assert site.state.users["default", "bob"].revision == 4


async def test_documents_that_cannot_be_read_are_refused_with_every_error(desk):
    documents = {"users": [{"handel": "bob"}], "policies": [{"name": "p", "profiles": [], "limit": {"gpu": 0.1234}}]}
    with pytest.raises(Refused) as refused:
        await ask(desk, "apply", ApplyRequest(documents=documents))
    assert refused.value.code == "INVALID"
    assert str(refused.value) == refused.value.body.errors[0] + f" (and {len(refused.value.body.errors) - 1} more)"
    assert [error.partition(":")[0] for error in refused.value.body.errors] == [
        "users[0].handel",
        "users[0]",
        "policies[0].limit.gpu",
    ]


async def test_documents_that_mean_nothing_are_refused_with_their_plan(desk):
    documents = {"policies": [{"name": "p", "group": "all", "profiles": ["tow"]}]}
    with pytest.raises(Refused) as refused:
        await ask(desk, "apply", ApplyRequest(documents=documents))
    assert (refused.value.code, str(refused.value)) == (
        "INVALID",
        "policies[0].profiles[0]: there is no profile tow; there are both, one, three",
    )
    assert [line.action for line in refused.value.body.changes] == ["create"]


async def test_a_deletion_and_a_cordon_come_back_with_their_revision(desk):
    deleted = await ask(desk, "delete", DeleteRequest(kind="profile", name="three"))
    cordoned = await ask(desk, "cordon", NodeRequest(node="w1"))
    uncordoned = await ask(desk, "uncordon", NodeRequest(node="w1"))
    assert [answer.revision for answer in (deleted, cordoned, uncordoned)] == [4, 5, 6]


async def test_questions_wait_until_the_ledger_has_been_read(desk, site):
    desk._deciding.caught_up.clear()
    waiting = asyncio.ensure_future(ask(desk, "get", GetRequest(kind="pool", name="south")))
    await asyncio.sleep(0)
    site.write("pools: [{name: south, selector: {site: south}}]")
    desk._deciding.caught_up.set()
    assert [view.name for view in (await waiting).documents] == ["south"]


async def test_bytes_that_are_not_a_request_are_malformed(desk):
    for what, handler in desk.handlers().items():
        with pytest.raises(Malformed):
            await handler("acme", "ann", b"{" if what == "get" else b'{"kind": 3, "node": 3, "token": 3, "tenant": 3}')


async def test_an_accident_in_judging_reaches_who_asked_and_the_next_is_served(desk, monkeypatch):
    monkeypatch.setattr("headrace.governance.decide.make_plan", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        await ask(desk, "apply", ApplyRequest(documents={}))
    monkeypatch.undo()
    assert await ask(desk, "apply", ApplyRequest(documents={})) == ApplyAnswer(changes=(), applied=True)


async def test_a_desk_serves_governance_only(tmp_path):
    class Other:
        decider = object()

    with pytest.raises(TypeError):
        RequestHandlers(Other(), SigningKeys(tmp_path), Keyring(tmp_path / "keys"))


async def test_erasing_destroys_the_key_once_it_is_on_record(desk, site, tmp_path):
    texts = Keyring(tmp_path / "keys")
    sealed = {tenant: texts.seal(tenant, b"python train.py", "job") for tenant in ("acme", "other")}
    assert (await ask(desk, "erase", EraseRequest(tenant="acme"))).applied
    with pytest.raises(KeyGone):
        texts.open("acme", sealed["acme"], "job")
    assert texts.open("other", sealed["other"], "job") == b"python train.py"
    with pytest.raises(Refused, match="not a name"):
        await ask(desk, "erase", EraseRequest(tenant="../other"))
    with pytest.raises(Refused, match="there is no othr"):
        await ask(desk, "erase", EraseRequest(tenant="othr"))
    assert texts.open("acme", texts.seal("acme", b"new", "job"), "job") == b"new"


class TestTokens:
    async def test_a_token_is_stated_before_it_is_signed_and_told_once(self, desk, site):
        request = TokenRequest(role="user", tenant="default", handle="ann", lifetime=DAY, reason="new here")
        made = await ask(desk, "token-create", request)
        (name, stated), *others = site.state.tokens.known.items()
        assert (name, stated.handle, stated.author, stated.expires_at, others) == (
            made.id,
            "ann",
            "acme.ann",
            made.expires_at,
            [],
        )
        assert read_bearer(made.token) == ("user", "default", "ann")
        assert [view.id for view in (await ask(desk, "tokens", TokensRequest())).tokens] == [made.id]

    async def test_a_token_that_is_revoked_is_listed_as_such(self, desk):
        made = await ask(desk, "token-create", TokenRequest(role="admin", handle="ops"))
        await ask(desk, "token-revoke", RevokeRequest(token=made.id))
        (view,) = (await ask(desk, "tokens", TokensRequest())).tokens
        assert view.revoked_at > 0

    @pytest.mark.parametrize(
        ("request_", "code", "says"),
        [
            (TokenRequest(role="root", handle="ann"), "INVALID", "role: there is no role root"),
            (TokenRequest(role="user", handle="Ann"), "INVALID", "handle: 'Ann' is not a name"),
            (TokenRequest(role="user", handle="nobody"), "NOT_FOUND", "there is no user default/nobody"),
        ],
    )
    async def test_a_token_for_an_unknown_user_is_refused(self, desk, site, request_, code, says):
        with pytest.raises(Refused, match=says) as refused:
            await ask(desk, "token-create", request_)
        assert (refused.value.code, site.state.tokens.known) == (code, {})


async def test_what_a_providers_token_claims_is_on_record_and_nothing_of_a_bad_one(desk, site):
    await ask(desk, "claim", ClaimRequest(token="eves"))
    await ask(desk, "claim", ClaimRequest(token="eves"))
    assert {bearer: one.groups for bearer, one in site.state.tokens.claims.items()} == {("default", "eve"): ("all",)}
    with pytest.raises(Refused, match="not good"):
        await ask(desk, "claim", ClaimRequest(token="forged"))


class TestFitting:
    def test_what_fits_stays_as_it_is(self):
        answer = ApplyAnswer(
            changes=(Change(kind="user", name="a/b", action="keep"),), warnings=("w",), errors=("e",), revision=3
        )
        assert fitting(answer) == answer

    def test_of_very_many_lines_the_first_are_told(self):
        kept = tuple(Change(kind="user", name=f"a/k{number}", action="keep") for number in range(3_000))
        created = tuple(Change(kind="user", name=f"a/c{number}", action="create") for number in range(1_000))
        errors = tuple(f"e{number}" for number in range(2_001))
        cut = fitting(ApplyAnswer(changes=(*kept, *created), errors=errors))
        assert (cut.changes, cut.errors) == (created, (*errors[:2_000], "and 1 more"))

    def test_of_very_long_lines_the_fields_are_left_out(self):
        changes = tuple(
            Change(kind="pool", name=f"p{number}", action="update", fields=("x" * 10_000,)) for number in range(1_000)
        )
        assert {change.fields for change in fitting(ApplyAnswer(changes=changes)).changes} == {()}


class TestFind:
    def test_documents_are_shown_as_they_are_written_sorted_by_name(self, site):
        assert find(site.state, GetRequest(kind="profile")) == GetAnswer(
            documents=tuple(
                DocumentView(
                    kind="profile", name=name, revision=1, document={"name": name, "request": {"gpu": gpus}, "pools": pools}
                )
                for name, gpus, pools in (("both", "1", ["west", "east"]), ("one", "1", ["west"]), ("three", "3", ["west"]))
            )
        )

    def test_what_is_found_can_be_applied_again_and_changes_nothing(self, site):
        found = find(site.state, GetRequest(kind="profile")).documents
        plan = site.plan("profiles: " + str([view.document for view in found]))
        assert [line.action for line in plan.changes] == ["keep"] * 3

    @pytest.mark.parametrize(("name", "found"), [("all", ["acme/all", "default/all"]), ("acme/all", ["acme/all"])])
    def test_a_short_name_is_found_in_every_tenant(self, site, name, found):
        site.write("groups: [{tenant: acme, name: all}, {name: other}]")
        assert [view.name for view in find(site.state, GetRequest(kind="group", name=name)).documents] == found

    @pytest.mark.parametrize(
        ("request_", "code", "error"),
        [
            (GetRequest(kind="pols"), "INVALID", "kind: there is no kind pols; did you mean pool?"),
            (GetRequest(kind="pool", name="wset"), "NOT_FOUND", "there is no pool wset; did you mean west?"),
            (GetRequest(kind="user", name="ann"), "NOT_FOUND", "there is no user ann; there is nothing of this kind"),
        ],
    )
    def test_what_is_not_there_is_said_so(self, site, request_, code, error):
        with pytest.raises(Refused) as refused:
            find(site.state, request_)
        assert (refused.value.code, str(refused.value)) == (code, error)

    def test_a_kind_without_objects_is_an_empty_list(self, site):
        assert find(site.state, GetRequest(kind="user")) == GetAnswer()
