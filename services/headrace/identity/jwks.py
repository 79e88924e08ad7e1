"""The keys that a provider publishes (JWKS): fetched, cached, and fetched again for an unknown key (rotation).

A key that the provider has withdrawn is trusted for at most `FRESH` seconds or, while the provider does not answer, `STALE` seconds.
Tokens with unknown keys, which an attacker can make, cause at most one fetch every `PAUSE` seconds.
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any

import jwt
import structlog
from jwt.exceptions import PyJWTError

from headrace.identity.caller import Unauthenticated
from headrace.identity.providers import TokenProvider, is_trustworthy

FRESH = 600.0
STALE = 24 * 3600.0
PAUSE = 10.0
FETCH_WITHIN = 5.0
BYTES_MAX = 1024 * 1024
DISCOVERY = "/.well-known/openid-configuration"

Fetch = Callable[[str], Awaitable[bytes]]
"""Returns the content of an address. Raises OSError."""

_log = structlog.get_logger("headrace.identity")


class Jwks:
    """The keys of one provider. `clock` returns monotonic seconds."""

    def __init__(
        self, provider: TokenProvider, fetch: Fetch | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._provider = provider
        self._fetch = fetch or fetch_url
        self._clock = clock
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetched = -STALE
        self._tried = -STALE
        self._lock = asyncio.Lock()

    async def key(self, name: str) -> jwt.PyJWK:
        """The key with that name; without a name in the token, the only key. Raises Unauthenticated if it is unknown."""
        if self._clock() - self._fetched > FRESH or self._find(name) is None:
            await self._refresh(name)
        found = self._find(name)
        if found is None:
            raise Unauthenticated("the token is signed with a key that its issuer does not publish")
        return found

    def _find(self, name: str) -> jwt.PyJWK | None:
        if self._clock() - self._fetched > STALE:
            return None
        if not name and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(name)

    async def _refresh(self, name: str) -> None:
        async with self._lock:
            now = self._clock()
            is_fresh = now - self._fetched <= FRESH and self._find(name) is not None
            if is_fresh or now - self._tried < PAUSE:
                return
            self._tried = now
            try:
                async with asyncio.timeout(2 * FETCH_WITHIN):
                    self._keys = _keys(await self._fetch(await self._address()))
            except (OSError, ValueError, RecursionError, TimeoutError, PyJWTError) as error:
                _log.warning("keys_not_fetched", issuer=self._provider.issuer, reason=str(error) or type(error).__name__)
            else:
                self._fetched = self._clock()

    async def _address(self) -> str:
        provider = self._provider
        if provider.jwks_uri:
            return provider.jwks_uri
        found = json.loads(await self._fetch(provider.issuer.rstrip("/") + DISCOVERY))
        uri = found.get("jwks_uri") if isinstance(found, dict) else None
        if not isinstance(uri, str) or found.get("issuer") != provider.issuer or not is_trustworthy(uri):
            raise ValueError(f"{provider.issuer} does not publish the address of its keys")
        return uri


def _keys(data: bytes) -> dict[str, jwt.PyJWK]:
    """The keys for signatures in a JWKS, by name; entries that are not public keys are skipped."""
    whole: Any = json.loads(data)
    entries = whole.get("keys") if isinstance(whole, dict) else None
    if not isinstance(entries, list):
        raise ValueError("malformed JWKS: it has no list of keys")  # noqa: TRY004  # the content is wrong, not a type
    keys: dict[str, jwt.PyJWK] = {}
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig" or entry.get("kty") == "oct":
            continue
        try:
            keys[str(entry.get("kid", ""))] = jwt.PyJWK(entry)
        except PyJWTError:
            continue
    return keys


async def fetch_url(url: str) -> bytes:
    """The content of an address. Raises OSError above `BYTES_MAX` bytes."""
    return await asyncio.to_thread(_get, url)


def _get(url: str) -> bytes:
    opener = urllib.request.build_opener(_NoRedirect)
    with opener.open(url, timeout=FETCH_WITHIN) as answer:
        data: bytes = answer.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise OSError(f"{url} returns more than {BYTES_MAX} bytes")
    return data


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: keys come from the configured address only."""

    def redirect_request(self, *_: Any) -> None:
        return None
