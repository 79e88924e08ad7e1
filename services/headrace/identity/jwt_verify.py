"""From a token's bytes to claims that can be believed: form, signature, issuer, audience, times, algorithm. Built on PyJWT.

The algorithm comes from a list of ours, never from the token: `none` and everything with a shared secret (`HS256`) are on no list, so a
public key can never be taken for a secret. What a token says of its own key (`jwk`, `jku`, `x5u`) is not looked at.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import jwt
from jwt.exceptions import ExpiredSignatureError, ImmatureSignatureError, InvalidAudienceError, PyJWTError

from headrace.contracts.messages.tokens import AUDIENCE, ISSUER
from headrace.identity.caller import Unauthenticated

TOKEN_BYTES_MAX = 16 * 1024
LEEWAY = 5
"""Seconds by which two clocks may differ."""
REQUIRED = ("iss", "aud", "sub", "iat", "exp")

ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
"""All that any issuer may use: signatures with a private key."""

NO_TOKEN = "this is no bearer token; send `Authorization: Bearer TOKEN`, as `headrace token create` prints it"  # noqa: S105  # a sentence
NOT_OURS = "the token is not from an issuer that is trusted here"
BAD = "the token is not good: its signature or its form is wrong"


class TokenHeader(NamedTuple):
    """What an unverified token says of itself, to find the key with which it has to be verified."""

    issuer: str
    key: str
    algorithm: str


def heading(token: str) -> TokenHeader:
    """Issuer, key and algorithm of a token; `Unauthenticated` where it has not the form of one."""
    if len(token) > TOKEN_BYTES_MAX or token.count(".") != 2 or not token.isascii():
        raise Unauthenticated(NO_TOKEN)
    first, second, _ = token.split(".")
    header, payload = _object(first), _object(second)
    issuer, key, algorithm = payload.get("iss"), header.get("kid", ""), header.get("alg")
    if not (isinstance(issuer, str) and isinstance(key, str) and isinstance(algorithm, str)) or "crit" in header:
        raise Unauthenticated(BAD)
    return TokenHeader(issuer, key, algorithm)


def verified(token: str, key: Any, algorithms: Sequence[str], issuer: str, audience: str) -> dict[str, Any]:
    """The claims of a token that holds now; `Unauthenticated` where anything about it is wrong."""
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(algorithms),
            issuer=issuer,
            audience=audience,
            leeway=LEEWAY,
            options={"require": list(REQUIRED), "strict_aud": False},
        )
    except ExpiredSignatureError:
        raise Unauthenticated("the token has expired; ask for another") from None
    except ImmatureSignatureError:
        raise Unauthenticated("the token is not good yet; look at this machine's clock") from None
    except InvalidAudienceError:
        raise Unauthenticated(f"the token is not made for {audience}") from None
    except (PyJWTError, ValueError, TypeError, RecursionError):
        raise Unauthenticated(BAD) from None
    return claims


def verified_ours(token: str, key: Any) -> dict[str, Any]:
    """The claims of a token of the embedded issuer."""
    return verified(token, key, ("EdDSA",), ISSUER, AUDIENCE)


def _object(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        raise Unauthenticated(NO_TOKEN) from None
    if not isinstance(found, dict):
        raise Unauthenticated(NO_TOKEN)
    return found
