"""Verifies tokens: form, signature, issuer, audience, times, algorithm. Built on PyJWT.

The algorithm comes from our own list, never from the token: `none` and algorithms with a shared secret (`HS256`) are not on the list, so a
public key can never be used as a secret. The key in a token's header (`jwk`, `jku`, `x5u`) is ignored.
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
"""Maximum difference between two clocks, in seconds."""
REQUIRED = ("iss", "aud", "sub", "iat", "exp")

ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
"""Algorithms that an issuer may use: signatures with a private key."""

NO_TOKEN = "bearer token missing; send `Authorization: Bearer TOKEN`, as `headrace token create` prints it"  # noqa: S105  # a sentence
MALFORMED = "malformed bearer token: send the whole text that `headrace token create` prints"
NOT_OURS = "the token is not from an issuer that is trusted here"
BAD = "invalid token: its signature or its form is wrong"


class TokenHeader(NamedTuple):
    """The unverified header of a token, to find the key that verifies it."""

    issuer: str
    key: str
    algorithm: str


def read_header(token: str) -> TokenHeader:
    """Issuer, key and algorithm of a token. Raises Unauthenticated if malformed."""
    if len(token) > TOKEN_BYTES_MAX or token.count(".") != 2 or not token.isascii():
        raise Unauthenticated(MALFORMED)
    first, second, _ = token.split(".")
    header, payload = _object(first), _object(second)
    issuer, key, algorithm = payload.get("iss"), header.get("kid", ""), header.get("alg")
    if not (isinstance(issuer, str) and isinstance(key, str) and isinstance(algorithm, str)) or "crit" in header:
        raise Unauthenticated(BAD)
    return TokenHeader(issuer, key, algorithm)


def verify(token: str, key: Any, algorithms: Sequence[str], issuer: str, audience: str) -> dict[str, Any]:
    """The claims of a valid token. Raises Unauthenticated."""
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
        raise Unauthenticated("the token is not valid yet; check this machine's clock") from None
    except InvalidAudienceError:
        raise Unauthenticated(f"the token is for another audience than {audience}") from None
    except (PyJWTError, ValueError, TypeError, RecursionError):
        raise Unauthenticated(BAD) from None
    return claims


def verify_own(token: str, key: Any) -> dict[str, Any]:
    """The claims of a valid token of the embedded issuer. Raises Unauthenticated."""
    return verify(token, key, ("EdDSA",), ISSUER, AUDIENCE)


def _object(part: str) -> dict[str, Any]:
    try:
        found = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        raise Unauthenticated(MALFORMED) from None
    if not isinstance(found, dict):
        raise Unauthenticated(MALFORMED)
    return found
