"""The embedded issuer's keys."""

from __future__ import annotations

import os
import stat

import jwt
import pytest

from headrace.contracts.messages.tokens import TokenRole
from headrace.identity.signing import SigningError, SigningKeys
from tests.unit.identity.issuing import NOW, grant


@pytest.fixture
def keys(tmp_path):
    return SigningKeys(tmp_path / "identity")


def files(tmp_path):
    return sorted((tmp_path / "identity").iterdir())


def test_the_first_token_makes_a_key_that_its_owner_alone_may_read(keys, tmp_path):
    token = keys.sign(grant())
    (file,) = files(tmp_path)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert jwt.get_unverified_header(token) == {"alg": "EdDSA", "kid": file.stem, "typ": "JWT"}


@pytest.mark.parametrize(
    ("role", "tenant", "subject"),
    [
        (TokenRole.USER, "acme", "acme.ann"),
        (TokenRole.SERVICE_ACCOUNT, "acme", "acme.ann"),
        (TokenRole.NODE, "", "node.ann"),
        (TokenRole.ADMIN, "default", "default.ann"),
        (TokenRole.VIEWER, "default", "default.ann"),
    ],
)
def test_a_token_says_all_that_is_granted(keys, role, tenant, subject):
    token = keys.sign(grant(role=role, tenant=tenant))
    public = keys.public(jwt.get_unverified_header(token)["kid"])
    options = {"verify_exp": False, "verify_iat": False, "verify_nbf": False}
    assert jwt.decode(token, public, algorithms=["EdDSA"], audience="headrace", options=options) == {
        "iss": "headrace",
        "aud": "headrace",
        "sub": subject,
        "jti": "t1",
        "iat": NOW,
        "nbf": NOW,
        "exp": NOW + 600,
        "role": str(role),
        "tenant": tenant,
        "handle": "ann",
    }


def test_a_new_key_signs_and_the_old_one_verifies_until_it_is_removed(keys, tmp_path):
    old = jwt.get_unverified_header(keys.sign(grant()))["kid"]
    os.utime(tmp_path / "identity" / f"{old}.pem", (1, 1))
    another = SigningKeys(tmp_path / "identity")
    new = another.rotate()
    assert jwt.get_unverified_header(keys.sign(grant()))["kid"] == new
    assert keys.public(old) is not None
    (tmp_path / "identity" / f"{old}.pem").unlink()
    assert keys.public(old) is None
    assert keys.public(new) is not None


@pytest.mark.parametrize("name", ["", "x", "../../etc/passwd", "a" * 43, "../" + "a" * 40])
def test_a_missing_key_gives_none(keys, name):
    keys.sign(grant())
    assert keys.public(name) is None


def test_a_key_that_others_may_read_is_not_used(keys, tmp_path):
    keys.sign(grant())
    (file,) = files(tmp_path)
    file.chmod(0o640)
    with pytest.raises(SigningError, match="may be read by others; `chmod 600"):
        keys.sign(grant())


@pytest.mark.parametrize("text", [b"", b"no key", b"-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n"])
def test_a_damaged_key_is_named(keys, tmp_path, text):
    keys.rotate()
    (file,) = files(tmp_path)
    file.write_bytes(text)
    with pytest.raises(SigningError, match="is not a key; remove it"):
        keys.sign(grant())


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "identity").write_text("a file")
    with pytest.raises(SigningError, match="identity cannot be written"):
        SigningKeys(tmp_path / "identity").sign(grant())
