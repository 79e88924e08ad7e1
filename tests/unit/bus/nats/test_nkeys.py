"""NATS' spelling of keys and tokens; that a server believes them is shown on a real one in the integration tests."""

from __future__ import annotations

import base64
import json
import stat

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headrace.bus.nats.nkeys import ACCOUNT, SERVER, USER, AccountKey, NkeyError, read_claims, read_key, spell
from tests.unit.bus.nats.signing_key import RAW, SERVER_KEY, part, signed

PUBLISHED = "NCYHCNMLCGSUOKFEX47X3Y6Q7MF3KQDJ4NKJIK7VPE5QXY5X7BYE23DV"
"""What a real server said its key was."""


def test_a_key_is_read_and_spelt_as_the_server_does():
    assert spell(SERVER, read_key(SERVER, PUBLISHED)) == PUBLISHED


@pytest.mark.parametrize(("whose", "letter"), [(ACCOUNT, "A"), (USER, "U"), (SERVER, "N")])
def test_a_keys_first_letter_says_whose_it_is(whose, letter):
    assert spell(whose, bytes(32))[0] == letter


@pytest.mark.parametrize(
    "text",
    ["", "N", "no key at all", PUBLISHED[:-1], PUBLISHED[:-1] + "A", PUBLISHED.lower(), spell(USER, bytes(32)), "é" * 56],
)
def test_what_is_not_a_key_of_a_server_is_refused(text):
    with pytest.raises(NkeyError):
        read_key(SERVER, text)


def test_claims_that_a_server_has_signed_are_read():
    assert read_claims(signed({"iss": spell(SERVER, RAW), "nats": {"a": 1}}))["nats"] == {"a": 1}


GOOD = {"iss": spell(SERVER, RAW)}
BAD = {
    "empty": "",
    "two parts": "a.b",
    "no base64": "é.é.é",
    "no json": "a.b.c",
    "a list": f"{part([])}.{part([])}.x",
    "another algorithm": signed(GOOD, algorithm="none"),
    "another's key": signed(GOOD, Ed25519PrivateKey.generate()),
    "an account's key": signed({"iss": spell(ACCOUNT, RAW)}),
    "no issuer": signed({}),
    "changed": ".".join((signed(GOOD).split(".")[0], part({**GOOD, "x": 1}), signed(GOOD).split(".")[2])),
    "deep": f"{part({'alg': 'ed25519-nkey'})}.{part(b'[' * 9_000)}.x",
    "no utf-8": f"{part(bytes((0xFF,)))}.{part(GOOD)}.x",
}


@pytest.mark.parametrize("token", BAD.values(), ids=BAD)
def test_claims_that_no_server_has_signed_are_not_read(token):
    with pytest.raises(NkeyError):
        read_claims(token)


def test_an_accounts_key_is_made_once_for_its_owner_alone(tmp_path):
    path = tmp_path / "identity" / "callout.key"
    key = AccountKey.at(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert AccountKey.at(path).public == key.public
    assert key.public[0] == "A"


def test_a_damaged_key_is_named(tmp_path):
    (tmp_path / "callout.key").write_bytes(b"short")
    with pytest.raises(NkeyError, match="is not a key: it has 5 bytes instead of 32"):
        AccountKey.at(tmp_path / "callout.key")


def test_what_an_account_signs_can_be_checked_with_its_public_key():
    key = AccountKey(SERVER_KEY)
    header, claims, signature = key.sign({"sub": "x"}).split(".")
    SERVER_KEY.public_key().verify(base64.urlsafe_b64decode(signature + "=="), f"{header}.{claims}".encode())
    assert json.loads(base64.urlsafe_b64decode(claims + "==")) == {"sub": "x", "iss": key.public}
