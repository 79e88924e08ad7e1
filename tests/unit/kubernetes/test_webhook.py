"""The webhook's server, over a real socket."""

from __future__ import annotations

import asyncio
import json

import pytest

from headrace.kubernetes.webhook import BODY_MAX, Webhook

REVIEW = {"request": {"uid": "u", "operation": "CREATE", "kind": {"kind": "Pod"}, "object": {"metadata": {"labels": {}}}}}


async def asked(port, head, body=b""):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
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
