"""The webhook over TLS, as an API server asks it: by the name of a Service, and with the authority of its configuration."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
from pathlib import Path

import pytest

from headrace.kubernetes.webhook import Certificate, Webhook
from headrace.supervisor.network.certificates import development

NAME = "headrace-bridge.gpus.svc"
REVIEW = {"request": {"uid": "u", "operation": "CREATE", "kind": {"kind": "Pod"}, "object": {"metadata": {"labels": {}}}}}


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
async def webhook():
    made = Webhook("bridge")
    yield made
    await made.close()


async def asked(webhook: Webhook, trust: ssl.SSLContext, name: str | None = NAME) -> int:
    """The status of a review's answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", webhook.port, ssl=trust, server_hostname=name)
    body = json.dumps(REVIEW).encode()
    writer.write(b"POST /review?timeout=5s HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ")[1])


async def test_an_api_server_that_trusts_the_authority_is_answered_and_another_hangs_up(webhook, secret):
    stranger = secret.issue("other")
    trust = secret.issue("own")
    await webhook.open("127.0.0.1", 0, Certificate(secret.mounted).context)
    assert await asked(webhook, trust) == 200
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer|self-signed"):
        await asked(webhook, stranger)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        await asked(webhook, trust, "headrace-bridge.other.svc")
    assert webhook.reviewed == 1


async def test_a_renewed_certificate_serves_the_next_connection(webhook, secret):
    former = secret.issue("first")
    await webhook.open("127.0.0.1", 0, Certificate(secret.mounted).context)
    assert await asked(webhook, former) == 200
    renewed = secret.issue("second")
    assert await asked(webhook, renewed) == 200
    with pytest.raises(ssl.SSLCertVerificationError):
        await asked(webhook, former)


async def test_a_certificate_that_does_not_fit_its_key_leaves_the_former_one_in_service(webhook, secret):
    former = secret.issue("first")
    await webhook.open("127.0.0.1", 0, Certificate(secret.mounted).context)
    secret.put("tls.crt", development(secret.place / "second", [NAME]).certificate)
    assert await asked(webhook, former) == 200
    (secret.mounted / "tls.key").unlink()
    assert await asked(webhook, former) == 200


def test_a_bridge_does_not_start_without_a_certificate_that_can_be_used(secret):
    with pytest.raises(FileNotFoundError):
        Certificate(secret.mounted)
    secret.issue("first")
    (secret.mounted / "tls.key").write_text("no key")
    with pytest.raises(ssl.SSLError):
        Certificate(secret.mounted)
