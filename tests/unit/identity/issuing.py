"""Tokens as honest and dishonest issuers make them."""

from __future__ import annotations

import json

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group, Tenant, User
from headrace.contracts.facts.records import Record
from headrace.contracts.messages.tokens import Grant, TokenRole
from headrace.domain.fold.apply import apply
from headrace.domain.state.state import State
from headrace.identity.providers import TokenProvider

NOW = 1_800_000_000
SECOND = 1_000_000
CORP = TokenProvider(
    name="corp",
    issuer="https://login.example/corp",
    audience="headrace",
    jwks_uri="https://login.example/corp/keys",
    tenant="acme",
    handle_claim="preferred_username",
    provider_admins=("operators",),
    provider_viewers=("auditors",),
    tenant_admins=("leads",),
)

RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
OTHER_RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
ED25519 = Ed25519PrivateKey.generate()


def jwks(**keys) -> bytes:
    """A JWKS of public keys by name."""
    entries = []
    for name, key in keys.items():
        algorithm = jwt.algorithms.OKPAlgorithm if isinstance(key, Ed25519PrivateKey) else jwt.algorithms.RSAAlgorithm
        entries.append({**json.loads(algorithm.to_jwk(key.public_key())), "kid": name, "use": "sig"})
    return json.dumps({"keys": entries}).encode()


def claims(**more) -> dict[str, object]:
    """What a provider says of Ann; None leaves a claim out."""
    whole = {
        "iss": CORP.issuer,
        "aud": "headrace",
        "sub": "4711",
        "iat": NOW,
        "exp": NOW + 600,
        "jti": "theirs",
        "preferred_username": "ann",
        **more,
    }
    return {name: value for name, value in whole.items() if value is not None}


def signed(key=RSA, name="k1", algorithm="RS256", **more) -> str:
    """A token of the provider."""
    return jwt.encode(claims(**more), key, algorithm=algorithm, headers={"kid": name})


def grant(role=TokenRole.USER, tenant="acme", handle="ann", name="t1", issued_at=NOW, expires_at=NOW + 600) -> Grant:
    """What the embedded issuer signs."""
    return Grant(name, role, tenant, handle, issued_at, expires_at)


class Ledger:
    """A state that hears facts of governance."""

    def __init__(self) -> None:
        self.state = State()
        self.append_facts(
            f.TenantAppliedV1(author="a.b", tenant=Tenant(name="acme", admins=("lea",))),
            f.TenantAppliedV1(author="a.b", tenant=Tenant(name="other")),
            f.GroupAppliedV1(
                author="a.b",
                group=Group(
                    tenant="acme", name="vision", members=("ann", "bob"), service_accounts=("ci", "cd"), on_behalf=("ci",)
                ),
            ),
            f.GroupAppliedV1(author="a.b", group=Group(tenant="acme", name="audio", members=("ann",))),
            f.UserAppliedV1(author="a.b", user=User(tenant="acme", handle="carla", subject="corp|0815")),
        )

    def append_facts(self, *facts) -> None:
        """One record."""
        sequence = self.state.sequence + 1
        record = Record(by="governance", now=NOW * SECOND + sequence, engine="t", as_of=sequence - 1, facts=facts)
        apply(self.state, record, sequence)

    def give(self, grant: Grant) -> None:
        """The fact behind a token."""
        self.append_facts(
            f.TokenCreatedV1(
                author="a.b",
                token=grant.id,
                role=grant.role,
                tenant=grant.tenant,
                handle=grant.handle,
                expires_at=grant.expires_at * SECOND,
            )
        )
