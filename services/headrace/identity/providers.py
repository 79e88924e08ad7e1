"""The trusted OpenID providers in `issuers.yaml` of the data directory, and the meaning of their claims.

```yaml
issuers:
  - name: corp                         # users' documents say `subject: "corp|<sub>"`
    issuer: https://login.example/realms/corp
    audience: headrace
    jwks_uri: https://login.example/realms/corp/keys     # omitted: asked of the issuer (OpenID discovery)
    algorithms: [RS256]                # omitted: every one with a private key
    tenant: acme                       # or tenant_claim: org
    handle_claim: preferred_username   # for users without a document
    groups_claim: groups
    membership: claims                 # the claim says who is in a group; omitted: documents do
    provider_admins: [gpu-operators]   # groups, as in the claim, whose users have this role
    provider_viewers: [auditors]
    tenant_admins: [acme-leads]
```
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from headrace.contracts.documents.tree import DocumentErrors
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.messages.tokens import ISSUER
from headrace.contracts.values.ids import is_token
from headrace.identity.caller import Role, Unauthenticated
from headrace.identity.jwt_verify import ALGORITHMS
from headrace.identity.principals import ProviderToken

ISSUERS = "issuers.yaml"
GROUPS_MAX = 1_000
_MEMBERSHIPS = ("documents", "claims")
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


class ProviderError(Exception):
    """The file cannot be used; the text is one line with the field and the way out."""


class TokenProvider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one issuer of tokens; see the module."""

    name: str
    issuer: str
    audience: str
    jwks_uri: str = ""
    algorithms: tuple[str, ...] = tuple(sorted(ALGORITHMS))
    tenant: str = ""
    tenant_claim: str = ""
    handle_claim: str = ""
    groups_claim: str = "groups"
    membership: str = "documents"
    provider_admins: tuple[str, ...] = ()
    provider_viewers: tuple[str, ...] = ()
    tenant_admins: tuple[str, ...] = ()


class _File(msgspec.Struct, forbid_unknown_fields=True):
    issuers: tuple[TokenProvider, ...] = ()


def read_providers(path: Path) -> tuple[TokenProvider, ...]:
    """The providers in a file; empty without a file. Raises ProviderError."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise ProviderError(f"{path} cannot be read: {error}") from None
    try:
        providers = msgspec.convert(read_tree(text).value, _File).issuers
    except DocumentErrors as wrong:
        raise ProviderError(f"{path}: {wrong.errors[0]}") from None
    except msgspec.ValidationError as error:
        raise ProviderError(f"{path}: {error}") from None
    for index, provider in enumerate(providers):
        wrong_with = _wrong(provider, providers[:index])
        if wrong_with:
            raise ProviderError(f"{path}: issuers[{index}].{wrong_with}")
    return providers


def _wrong(provider: TokenProvider, before: tuple[TokenProvider, ...]) -> str:
    if not is_token(provider.name):
        return f"name: invalid name {provider.name!r}: use 1-63 of a-z, 0-9, '-'"
    if any(other.name == provider.name for other in before):
        return f"name: {provider.name} occurs twice"
    if provider.issuer == ISSUER or any(other.issuer == provider.issuer for other in before):
        return f"issuer: {provider.issuer} is already used by another issuer"
    if not provider.audience:
        return "audience: write the audience of the provider's tokens, such as headrace"
    for field in ("issuer", "jwks_uri"):
        url = getattr(provider, field)
        if url and not is_trustworthy(url):
            return f"{field}: invalid address {url!r}: use https (http only for this machine)"
    unknown = sorted(set(provider.algorithms) - ALGORITHMS)
    if unknown or not provider.algorithms:
        return f"algorithms: {', '.join(unknown) or 'none'} cannot be used; there are {', '.join(sorted(ALGORITHMS))}"
    if provider.membership not in _MEMBERSHIPS:
        return f"membership: invalid value {provider.membership!r}: use documents or claims"
    if provider.tenant and not is_token(provider.tenant):
        return f"tenant: invalid name {provider.tenant!r}: use 1-63 of a-z, 0-9, '-'"
    return ""


def is_trustworthy(url: str) -> bool:
    """True if an address can be trusted: over TLS, or on this machine."""
    parts = urlsplit(url)
    return bool(parts.hostname) and (parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL))


def interpret_claims(provider: TokenProvider, claims: dict[str, Any], *, only: bool) -> ProviderToken:
    """The interpretation of verified claims. `only`: there is one provider, so documents may name its subjects without its name."""
    subject = claims["sub"]
    if not isinstance(subject, str) or not subject:
        raise Unauthenticated("the token names no user: its `sub` is not text")
    subjects = (f"{provider.name}|{subject}", *((subject,) if only else ()))
    claimed = _texts(claims.get(provider.groups_claim))
    return ProviderToken(
        subjects=subjects,
        tenant=provider.tenant or _text(claims.get(provider.tenant_claim)),
        handle=_text(claims.get(provider.handle_claim)),
        role=_role(provider, frozenset(claimed)),
        groups=claimed if provider.membership == "claims" else None,
        token=_text(claims.get("jti")),
        issued_at=int(claims["iat"]) * 1_000_000,
        expires_at=int(claims["exp"]) * 1_000_000,
    )


def _role(provider: TokenProvider, groups: frozenset[str]) -> Role | None:
    for role, names in (
        (Role.PROVIDER_ADMIN, provider.provider_admins),
        (Role.PROVIDER_VIEWER, provider.provider_viewers),
        (Role.TENANT_ADMIN, provider.tenant_admins),
    ):
        if groups.intersection(names):
            return role
    return None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(entry for entry in value[:GROUPS_MAX] if isinstance(entry, str)) if isinstance(value, list) else ()
