"""The webhook's server over a real socket, and over TLS as an API server asks it: by the name of a Service, with a given authority."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
from pathlib import Path

import pytest

from headrace.kubernetes.webhook import BODY_MAX, Certificate, Webhook
from headrace.supervisor.network.certificates import development

NAME = "headrace-bridge.gpus.svc"

REVIEW = {"request": {"uid": "u", "operation": "CREATE", "kind": {"kind": "Pod"}, "object": {"metadata": {"labels": {}}}}}


async def asked(port, head, body=b"", **tls):
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **tls)
    writer.write(head + b"\r\n\r\n" + body)
    answer = await reader.read()
    writer.close()
    head, _, rest = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), json.loads(rest)


@pytest.fixture
async def webhook():
    made = Webhook("bridge")
    await made.open("127.0.0.1", 0, None)
    yield made
    await made.close()


async def test_a_review_is_answered(webhook):
    body = json.dumps(REVIEW).encode()
    status, answer = await asked(webhook.port, b"POST /review?timeout=10s HTTP/1.1\r\nContent-Length: %d" % len(body), body)
    assert (status, answer["response"]) == (200, {"uid": "u", "allowed": True})
    assert webhook.reviewed == 1


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /review HTTP/1.1\r\nContent-Length: 0", 404),
        (b"POST /other HTTP/1.1\r\nContent-Length: 0", 404),
        (b"POST /review HTTP/1.1", 413),
        (b"POST /review HTTP/1.1\r\nContent-Length: %d" % (BODY_MAX + 1), 413),
        (b"POST /review HTTP/1.1\r\nContent-Length: -1", 413),
        (b"POST /review HTTP/1.1\r\nContent-Length: 0", 400),
    ],
)
async def test_anything_else_is_refused(webhook, head, status):
    assert (await asked(webhook.port, head))[0] == status


class Secret:
    """A directory with a certificate, and the authorities that have made one."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.mounted = place / "mounted"
        self.mounted.mkdir()

    def issue(self, authority: str, name: str = NAME) -> ssl.SSLContext:
        """Replace the certificate; the result trusts the authority that made it."""
        files = development(self.place / authority, [name])
        self.put("tls.crt", files.certificate)
        self.put("tls.key", files.key)
        return ssl.create_default_context(cafile=files.ca)

    def put(self, name: str, file: str) -> None:
        shutil.copy(file, self.mounted / "new")
        (self.mounted / "new").replace(self.mounted / name)


@pytest.fixture
def secret(tmp_path):
    return Secret(tmp_path)


@pytest.fixture
async def closed():
    """A webhook that does not listen yet."""
    made = Webhook("bridge")
    yield made
    await made.close()


async def reviewed(webhook: Webhook, trust: ssl.SSLContext, name: str = NAME) -> int:
    """The status of a review's answer over TLS."""
    body = json.dumps(REVIEW).encode()
    head = b"POST /review?timeout=5s HTTP/1.1\r\nContent-Length: %d" % len(body)
    return (await asked(webhook.port, head, body, ssl=trust, server_hostname=name))[0]


async def test_an_api_server_that_trusts_the_authority_is_answered_and_another_hangs_up(closed, secret):
    stranger = secret.issue("other")
    trust = secret.issue("own")
    await closed.open("127.0.0.1", 0, Certificate(secret.mounted).context)
    assert await reviewed(closed, trust) == 200
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer|self-signed"):
        await reviewed(closed, stranger)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        await reviewed(closed, trust, "headrace-bridge.other.svc")
    assert closed.reviewed == 1


async def test_a_renewed_certificate_serves_the_next_connection(closed, secret):
    former = secret.issue("first")
    await closed.open("127.0.0.1", 0, Certificate(secret.mounted).context)
    assert await reviewed(closed, former) == 200
    renewed = secret.issue("second")
    assert await reviewed(closed, renewed) == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        await reviewed(closed, former)


async def test_a_certificate_that_does_not_fit_its_key_leaves_the_former_one_in_service(closed, secret):
    former = secret.issue("first")
    await closed.open("127.0.0.1", 0, Certificate(secret.mounted).context)
    secret.put("tls.crt", development(secret.place / "second", [NAME]).certificate)
    assert await reviewed(closed, former) == 200
    (secret.mounted / "tls.key").unlink()
    assert await reviewed(closed, former) == 200


def test_a_bridge_does_not_start_without_a_certificate_that_can_be_used(secret):
    with pytest.raises(FileNotFoundError):
        Certificate(secret.mounted)
    secret.issue("first")
    (secret.mounted / "tls.key").write_text("no key")
    with pytest.raises(ssl.SSLError):
        Certificate(secret.mounted)
