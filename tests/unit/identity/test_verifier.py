"""The one door, from the token's bytes to the caller."""

from __future__ import annotations

import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from headrace.contracts import facts as f
from headrace.contracts.messages.tokens import TokenRole
from headrace.identity import verifier
from headrace.identity.caller import Role, Unauthenticated
from headrace.identity.jwt_verify import NOT_OURS, read_header
from headrace.identity.principals import IssuedToken
from headrace.identity.signing import IDENTITY, SigningKeys
from headrace.identity.verifier import Verifier, bearer
from tests.unit.identity.issuing import CORP, ED25519, OTHER_RSA, RSA, Ledger, grant, jwks, signed


class Door:
    """A verifier, the ledger behind it, and the means to make tokens."""

    def __init__(self, directory):
        self.ledger = Ledger()
        self.directory, self.keys = directory, SigningKeys(directory)
        self.fetched = 0
        self.time = time.time()
        self.verifier = Verifier(self.keys, (CORP,), fetch=self.fetch, clock=lambda: self.time)

    def stolen_key(self, name):
        """The private half of one of our keys, as one who can read the directory has it."""
        return load_pem_private_key((self.directory / f"{name}.pem").read_bytes(), None)

    async def fetch(self, _url):
        self.fetched += 1
        return jwks(k1=RSA)

    def give(self, **fields):
        begins = int(self.time)
        made = grant(**{"issued_at": begins, "expires_at": begins + 600, **fields})
        self.ledger.give(made)
        return self.keys.sign(made)

    async def enter(self, token):
        return await self.verifier.caller(self.ledger.state, token)


@pytest.fixture
def door(tmp_path):
    return Door(tmp_path)


def now(**more):
    moment = int(time.time())
    return {"iat": moment, "exp": moment + 600, **more}


async def test_our_token_and_a_providers_are_both_let_in(door):
    ours = await door.enter(door.give(role=TokenRole.SERVICE_ACCOUNT, handle="ci"))
    theirs = await door.enter(signed(**now()))
    assert (ours.role, ours.author) == (Role.SERVICE_ACCOUNT, "acme.ci")
    assert (theirs.role, theirs.author, theirs.groups) == (Role.TENANT_MEMBER, "acme.ann", ("audio", "vision"))


async def test_a_revocation_is_not_hidden_by_what_is_remembered(door):
    token = door.give()
    await door.enter(token)
    door.ledger.append_facts(f.TokenRevokedV1(author="a.b", token="t1"))
    with pytest.raises(Unauthenticated, match="revoked"):
        await door.enter(token)


async def test_what_is_remembered_ends_with_the_token(door, monkeypatch):
    token = door.give(expires_at=int(door.time) + 6)
    await door.enter(token)
    read: list[str] = []
    monkeypatch.setattr(verifier, "read_header", lambda token: read.append(token) or read_header(token))
    door.time += 5
    await door.enter(token)
    assert read == []
    door.time += 2
    await door.enter(token)
    assert read == [token]


async def test_a_providers_token_is_not_fetched_for_every_time_it_is_shown(door):
    token = signed(**now())
    for _ in range(5):
        await door.enter(token)
    assert door.fetched == 1


def forged_as_ours(key, name, **more):
    claims = now(
        **{"iss": "headrace", "aud": "headrace", "sub": "acme.ann", "jti": "t1", "handle": "ann", "tenant": "acme", **more}
    )
    return jwt.encode(claims, key, algorithm="EdDSA", headers={"kid": name})


async def test_no_forged_token_is_let_in(door):
    good = door.give()
    name = jwt.get_unverified_header(good)["kid"]
    forged = {
        "our issuer, another's key": forged_as_ours(ED25519, name),
        "our issuer, a key that is not ours": forged_as_ours(ED25519, "k1"),
        "our issuer, a name that leads elsewhere": forged_as_ours(ED25519, "../../../etc/passwd"),
        "an issuer nobody knows": signed(**now(iss="https://evil.example")),
        "a provider, another's key": signed(OTHER_RSA, **now()),
        "a provider, an unknown key": signed(name="k2", **now()),
        "a provider that says it is us": signed(**now(iss="headrace")),
        "an algorithm the provider may not use": signed(Ed25519PrivateKey.generate(), algorithm="EdDSA", **now()),
        "another audience": signed(**now(aud="grafana")),
        "nothing": "",
        "a line": "Bearer x",
    }
    for token in forged.values():
        with pytest.raises(Unauthenticated):
            await door.enter(token)
    assert (await door.enter(good)).handle == "ann"


async def test_our_key_cannot_speak_for_whom_the_ledger_gave_no_token(door):
    door.give()
    name = door.keys.rotate()
    claims = now(iss="headrace", aud="headrace", sub="default.root", jti="never-stated", role="admin", handle="root")
    stolen = jwt.encode(claims, door.stolen_key(name), algorithm="EdDSA", headers={"kid": name})
    with pytest.raises(Unauthenticated, match="revoked"):
        await door.enter(stolen)
    without_id = {key: value for key, value in claims.items() if key != "jti"}
    with pytest.raises(Unauthenticated):
        await door.enter(jwt.encode(without_id, door.stolen_key(name), algorithm="EdDSA", headers={"kid": name}))


async def test_what_a_token_says_of_itself_beyond_its_id_is_not_believed(door):
    door.give()
    name = door.keys.rotate()
    raised = forged_as_ours(door.stolen_key(name), name, role="admin", handle="root", tenant="other")
    caller = await door.enter(raised)
    assert (caller.role, caller.author) == (Role.TENANT_MEMBER, "acme.ann")


async def test_an_installation_has_its_keys_and_providers_in_its_data(tmp_path, monkeypatch):
    (tmp_path / "issuers.yaml").write_text("issuers: [{name: a, issuer: 'https://a.example', audience: headrace}]")
    begins, keys, fetched = int(time.time()), SigningKeys(tmp_path / IDENTITY), []
    made = grant(issued_at=begins, expires_at=begins + 600)

    async def away(url):
        fetched.append(url)
        raise OSError("no route")

    monkeypatch.setattr("headrace.identity.jwks.fetch_url", away)
    whole = Verifier.of(tmp_path)
    assert await whole.claims(keys.sign(made)) == IssuedToken(made.id, made.expires_at * 1_000_000)
    with pytest.raises(Unauthenticated, match=NOT_OURS):
        await whole.claims(signed(iss="https://b.example", **now()))
    with pytest.raises(Unauthenticated, match="signed with a key that its issuer does not publish"):
        await whole.claims(signed(iss="https://a.example", **now()))
    assert fetched == ["https://a.example/.well-known/openid-configuration"]


@pytest.mark.parametrize("header", ["Bearer abc", "bearer  abc ", "BEARER abc"])
def test_a_bearer_shows_its_token(header):
    assert bearer(header) == "abc"


@pytest.mark.parametrize("header", ["", "abc", "Bearer", "Bearer ", "Basic abc", "Bearerabc"])
def test_a_caller_without_one_is_told_how(header):
    with pytest.raises(Unauthenticated, match="Authorization: Bearer TOKEN"):
        bearer(header)


async def test_where_only_the_owner_is_let_in_a_good_token_of_another_user_is_refused(door):
    door.verifier.alone = "they run as ada"
    for fields in ({}, {"role": TokenRole.SERVICE_ACCOUNT, "handle": "ci"}, {"role": TokenRole.VIEWER, "tenant": "default"}):
        with pytest.raises(
            Unauthenticated, match="only the owner and administrators can log in: `headrace up --jobs-are-trusted`"
        ):
            await door.enter(door.give(name=f"t-{len(fields)}-{fields.get('role', '')}", **fields))
    with pytest.raises(Unauthenticated, match="only the owner and administrators can log in"):
        await door.enter(signed(**now()))
    admin = await door.enter(door.give(role=TokenRole.ADMIN, tenant="default", name="t2"))
    node = await door.enter(door.give(role=TokenRole.NODE, tenant="", handle="gpu01", name="t3"))
    assert (admin.role, node.role) == (Role.PROVIDER_ADMIN, Role.NODE)
