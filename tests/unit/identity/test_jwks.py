"""A provider's keys: kept, renewed, rotated, and never asked for more often than they should be."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from msgspec import structs

from headrace.identity.caller import Unauthenticated
from headrace.identity.jwks import FRESH, PAUSE, STALE, Jwks, fetch_url
from tests.unit.identity.issuing import CORP, ED25519, OTHER_RSA, RSA, jwks

URL = CORP.jwks_uri


class Web:
    """Addresses and what they say; counts what was fetched."""

    def __init__(self, **answers):
        self.answers = {URL: jwks(k1=RSA), **answers}
        self.fetched = []
        self.now = 0.0

    async def fetch(self, url):
        self.fetched.append(url)
        await asyncio.sleep(0)
        if url not in self.answers:
            raise OSError("nobody answers")
        return self.answers[url]

    def keys(self, provider=CORP):
        return Jwks(provider, self.fetch, lambda: self.now)


@pytest.fixture
def web():
    return Web()


async def test_keys_are_fetched_once_and_kept_while_they_are_fresh(web):
    keys = web.keys()
    for _ in range(3):
        assert (await keys.key("k1")).key_id == "k1"
    assert web.fetched == [URL]
    web.now += FRESH + 1
    await keys.key("k1")
    assert web.fetched == [URL, URL]


async def test_many_who_ask_at_once_cause_one_fetch(web):
    keys = web.keys()
    await asyncio.gather(*(keys.key("k1") for _ in range(20)))
    assert web.fetched == [URL]


async def test_a_new_key_is_fetched_when_it_is_first_seen_and_an_old_one_ends(web):
    keys = web.keys()
    await keys.key("k1")
    web.answers[URL] = jwks(k2=ED25519)
    web.now += PAUSE
    assert (await keys.key("k2")).algorithm_name == "EdDSA"
    with pytest.raises(Unauthenticated):
        await keys.key("k1")


async def test_unknown_keys_cause_one_fetch_in_a_while_however_many_there_are(web):
    keys = web.keys()
    await keys.key("k1")
    web.now += PAUSE
    for number in range(50):
        with pytest.raises(Unauthenticated, match="does not publish"):
            await keys.key(f"made-up-{number}")
    assert len(web.fetched) == 2


async def test_while_the_provider_is_away_its_keys_go_on_for_a_day_and_no_longer(web):
    keys = web.keys()
    await keys.key("k1")
    del web.answers[URL]
    web.now = STALE - 1
    assert (await keys.key("k1")).key_id == "k1"
    web.now = STALE + 1
    with pytest.raises(Unauthenticated):
        await keys.key("k1")


async def test_a_token_without_a_key_name_has_the_only_key_there_is(web):
    keys = web.keys()
    assert (await keys.key("")).key_id == "k1"
    web.answers[URL] = jwks(k1=RSA, k2=OTHER_RSA)
    web.now += FRESH + 1
    with pytest.raises(Unauthenticated):
        await keys.key("")


@pytest.mark.parametrize(
    "answer", [b"", b"[]", b"{}", b'{"keys": 5}', b"\xff", b"[" * 20_000, b'{"keys": [5, {}, {"kty": "RSA"}]}']
)
async def test_what_is_not_a_jwks_lets_no_caller_in(web, answer):
    web.answers[URL] = answer
    with pytest.raises(Unauthenticated):
        await web.keys().key("k1")


async def test_secrets_and_keys_for_encryption_are_passed_over(web):
    secret = {"kty": "oct", "k": "c2VjcmV0", "kid": "secret", "alg": "HS256"}
    (encrypting,) = json.loads(jwks(enc=RSA))["keys"]
    web.answers[URL] = json.dumps({"keys": [secret, {**encrypting, "use": "enc"}]}).encode()
    for name in ("secret", "enc"):
        with pytest.raises(Unauthenticated):
            await web.keys().key(name)


DISCOVERED = structs.replace(CORP, jwks_uri="")
WELL_KNOWN = "https://login.example/corp/.well-known/openid-configuration"


async def test_the_issuer_says_where_its_keys_are(web):
    web.answers[WELL_KNOWN] = json.dumps({"issuer": CORP.issuer, "jwks_uri": URL}).encode()
    assert (await web.keys(DISCOVERED).key("k1")).key_id == "k1"
    assert web.fetched == [WELL_KNOWN, URL]


@pytest.mark.parametrize(
    "answer",
    [
        {"issuer": "https://evil.example", "jwks_uri": URL},
        {"issuer": CORP.issuer, "jwks_uri": "http://evil.example/keys"},
        {"issuer": CORP.issuer, "jwks_uri": 5},
        {"issuer": CORP.issuer},
        [],
    ],
)
async def test_an_issuer_that_speaks_of_another_is_not_believed(web, answer):
    web.answers[WELL_KNOWN] = json.dumps(answer).encode()
    with pytest.raises(Unauthenticated):
        await web.keys(DISCOVERED).key("k1")


class _Site(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "/keys")
            self.end_headers()
            return
        body = b"x" * (2 * 1024 * 1024) if self.path == "/large" else b"the keys"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


async def test_an_address_is_fetched_without_following_it_elsewhere_and_without_end():
    with HTTPServer(("127.0.0.1", 0), _Site) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            address = f"http://127.0.0.1:{server.server_port}"
            assert await fetch_url(f"{address}/keys") == b"the keys"
            for path in ("/elsewhere", "/large"):
                with pytest.raises(OSError, match="HTTP Error 302|returns more than"):
                    await fetch_url(address + path)
        finally:
            server.shutdown()
            thread.join()
