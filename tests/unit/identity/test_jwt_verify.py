"""Tokens that are wrong in every way there is; none of them is believed."""

from __future__ import annotations

import base64
import json
import time

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from headrace.identity.caller import Unauthenticated
from headrace.identity.jwt_verify import TokenHeader, read_header, verify
from tests.unit.identity.issuing import CORP, OTHER_RSA, RSA, claims, signed

PUBLIC = RSA.public_key()


DAY = 86_400
"""Longer than any run of the tests: tokens are made before the first begins."""


def now(**more):
    """Claims of this moment."""
    moment = int(time.time())
    return {"iat": moment, "exp": moment + DAY, **more}


def check(token, algorithms=("RS256",)):
    return verify(token, PUBLIC, algorithms, CORP.issuer, CORP.audience)


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def with_header(**header):
    _, payload, signature = signed(**now()).split(".")
    return ".".join((part({"alg": "RS256", "typ": "JWT", **header}), payload, signature))


def shared_secret():
    """The public key, which is known to all, as if it were a secret: by hand, because PyJWT refuses to make this token."""
    import hashlib
    import hmac

    pem = PUBLIC.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    body = part({"alg": "HS256", "typ": "JWT", "kid": "k1"}) + "." + part(claims(**now()))
    return body + "." + base64.urlsafe_b64encode(hmac.new(pem, body.encode(), hashlib.sha256).digest()).rstrip(b"=").decode()


def test_a_good_token_gives_its_claims():
    assert check(signed(**now(), more="kept"))["more"] == "kept"


def test_an_audience_among_others_will_do():
    assert check(signed(**now(aud=["other", "headrace"])))["sub"] == "4711"


FORGED = {
    "no algorithm": part({"alg": "none", "typ": "JWT"}) + "." + part(claims(**now())) + ".",
    "no algorithm, spelt otherwise": part({"alg": "nOnE", "typ": "JWT"}) + "." + part(claims(**now())) + ".",
    "the public key as a shared secret": shared_secret(),
    "another key": signed(OTHER_RSA, **now()),
    "another algorithm of the same key": signed(algorithm="PS256", **now()),
    "an algorithm that is none": with_header(alg="RS999"),
    "a header that was changed": with_header(kid="k2"),
    "no signature": signed(**now()).rpartition(".")[0] + ".",
    "a cut signature": signed(**now())[:-8],
    "a payload of another": ".".join(
        (signed(**now()).split(".")[0], part(claims(**now(sub="root"))), signed(**now()).split(".")[2])
    ),
    "expired": signed(**now(exp=int(time.time()) - 60)),
    "expired by a text": signed(**now(exp="tomorrow")),
    "not good yet": signed(**now(nbf=int(time.time()) + DAY)),
    "made in the future": signed(**now(iat=int(time.time()) + DAY)),
    "another audience": signed(**now(aud="elsewhere")),
    "no audience": signed(**now(aud=None)),
    "another issuer": signed(**now(iss="https://evil.example")),
    "no issuer": signed(**now(iss=None)),
    "no subject": signed(**now(sub=None)),
    "no expiry": signed(**now(exp=None)),
    "no time of issue": signed(**now(iat=None)),
    "nothing": "",
    "three dots": "...",
    "bytes that are no text": "\udcff.\udcff.\udcff",
    "no json": "a.b.c",
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_token_that_is_wrong_is_not_believed(forged):
    with pytest.raises(Unauthenticated):
        check(forged)


def test_a_token_is_never_verified_with_an_algorithm_that_is_not_on_the_list():
    with pytest.raises(Unauthenticated):
        check(signed(**now()), algorithms=("ES256",))


def test_a_heading_says_where_to_look_for_the_key():
    assert read_header(signed()) == TokenHeader(CORP.issuer, "k1", "RS256")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.b",
        "a.b.c.d",
        "é.é.é",
        "x" * 20_000,
        "[].[].x",
        part([]) + "." + part({}) + ".x",
        part({"alg": 5}) + "." + part({"iss": "i"}) + ".x",
        part({"alg": "RS256", "kid": ["k"]}) + "." + part({"iss": "i"}) + ".x",
        part({"alg": "RS256", "kid": "k", "crit": ["b64"]}) + "." + part({"iss": "i"}) + ".x",
        part({"alg": "RS256"}) + "." + part({"iss": {"a": 1}}) + ".x",
        part({"alg": "RS256"}) + "." + base64.urlsafe_b64encode(b"[" * 9_000).decode() + ".x",
    ],
)
def test_what_has_not_the_form_of_a_token_has_no_heading(text):
    with pytest.raises(Unauthenticated):
        read_header(text)


def test_a_sentence_about_a_token_never_holds_the_token():
    for forged in FORGED.values():
        with pytest.raises(Unauthenticated) as refused:
            check(forged)
        assert len(forged) < 9 or forged[:9] not in str(refused.value)


def test_pyjwt_itself_would_refuse_an_unsigned_token():
    with pytest.raises(jwt.InvalidTokenError):
        jwt.decode(FORGED["no algorithm"], PUBLIC, algorithms=["RS256"])
