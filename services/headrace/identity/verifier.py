"""From a bearer token to a caller. Signatures are checked once a minute per token, everything else on every call."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from headrace.bus.variables import JOBS_TOGETHER
from headrace.contracts.messages.tokens import ISSUER
from headrace.domain.state.state import State
from headrace.identity.caller import OF_NODES, Caller, Role, Unauthenticated, only_the_owner
from headrace.identity.jwks import Fetch, Jwks
from headrace.identity.jwt_verify import BAD, NO_TOKEN, NOT_OURS, read_header, verify, verify_own
from headrace.identity.principals import IssuedToken, ProviderToken, resolve
from headrace.identity.providers import ISSUERS, TokenProvider, interpret_claims, read_providers
from headrace.identity.signing import IDENTITY, SigningKeys

REMEMBERED_FOR = 60.0
REMEMBERED_MAX = 10_000
"""Maximum number of tokens whose signature counts as checked, kept by digest."""

_BEARER = "bearer "


class _Remembered(NamedTuple):
    until: float
    claims: IssuedToken | ProviderToken


class Verifier:
    """Checks tokens against the embedded issuer's keys and the providers'. `clock` returns seconds since 1970.

    `alone`: why only administrators and nodes can log in; empty if all users with a token can.
    """

    def __init__(
        self,
        keys: SigningKeys,
        providers: Iterable[TokenProvider] = (),
        *,
        fetch: Fetch | None = None,
        clock: Callable[[], float] = time.time,
        alone: str = "",
    ) -> None:
        self._keys = keys
        self._providers = {provider.issuer: (provider, Jwks(provider, fetch)) for provider in providers}
        self._clock = clock
        self.alone = alone
        self._remembered: OrderedDict[bytes, _Remembered] = OrderedDict()

    @classmethod
    def of(cls, data: Path, environment: Mapping[str, str] = os.environ) -> Verifier:
        """The verifier of an installation, by its data directory. Raises ProviderError."""
        return cls(SigningKeys(data / IDENTITY), read_providers(data / ISSUERS), alone=environment.get(JOBS_TOGETHER, ""))

    async def caller(self, state: State, token: str) -> Caller:
        """The bearer of a token, as the fold knows it now. Raises Unauthenticated."""
        caller = resolve(state, await self.claims(token))
        if self.alone and caller.role not in (Role.PROVIDER_ADMIN, *OF_NODES):
            raise Unauthenticated(only_the_owner(self.alone))
        return caller

    async def claims(self, token: str) -> IssuedToken | ProviderToken:
        """The content of a valid token, without looking up its bearer. Raises Unauthenticated."""
        digest = sha256(token.encode("utf-8", "replace")).digest()
        now = self._clock()
        remembered = self._remembered.get(digest)
        if remembered is not None and now < remembered.until:
            return remembered.claims
        claims = await self._check(token)
        self._remembered[digest] = _Remembered(min(now + REMEMBERED_FOR, claims.expires_at / 1_000_000), claims)
        if len(self._remembered) > REMEMBERED_MAX:
            self._remembered.popitem(last=False)
        return claims

    async def _check(self, token: str) -> IssuedToken | ProviderToken:
        named = read_header(token)
        if named.issuer == ISSUER:
            key = self._keys.public(named.key)
            if key is None:
                raise Unauthenticated(BAD)
            payload = verify_own(token, key)
            name = payload.get("jti")
            if not isinstance(name, str):
                raise Unauthenticated(BAD)
            return IssuedToken(name, int(payload["exp"]) * 1_000_000)
        known = self._providers.get(named.issuer)
        if known is None:
            raise Unauthenticated(NOT_OURS)
        provider, published = known
        if named.algorithm not in provider.algorithms:
            raise Unauthenticated(BAD)
        payload = verify(token, await published.key(named.key), provider.algorithms, provider.issuer, provider.audience)
        return interpret_claims(provider, payload, only=len(self._providers) == 1)


def bearer(header: str) -> str:
    """The token in an `Authorization` header. Raises Unauthenticated without one."""
    if not header.lower().startswith(_BEARER) or not (token := header[len(_BEARER) :].strip()):
        raise Unauthenticated(NO_TOKEN)
    return token
