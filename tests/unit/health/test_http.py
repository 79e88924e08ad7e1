"""The page answers GET and HEAD of what there is, asks for the token, and cannot be kept busy."""

from __future__ import annotations

import asyncio
import json

import pytest

from headrace.health import http
from headrace.health.health import Health
from headrace.health.http import HealthServer


@pytest.fixture
def health():
    return Health("allocator")


@pytest.fixture
async def opened(health):
    made = HealthServer(health, "s3cret")
    await made.open("127.0.0.1", 0)
    yield made
    await made.close()


async def exchange(opened, request, *headers):
    """Status and body of what comes back to these bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
    writer.write("\r\n".join((request, *headers, "", "")).encode())
    answer = await reader.read(-1)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


async def test_it_lives_and_is_ready_while_its_checks_hold(opened, health):
    assert await exchange(opened, "GET /livez HTTP/1.1") == (200, b"ok\n")
    health.check("nats", lambda: "away")
    status, body = await exchange(opened, "GET /readyz?verbose HTTP/1.1")
    assert (status, json.loads(body)) == (
        503,
        {"name": "allocator", "ready": False, "role": "active", "checks": {"nats": "away"}},
    )
    health.check("nats", lambda: "")
    assert (await exchange(opened, "GET /readyz HTTP/1.1"))[0] == 200
    assert await exchange(opened, "GET / HTTP/1.1") == (200, b"/livez\n/readyz\n/metrics\n")


async def test_figures_are_for_those_who_show_the_token(opened):
    for header in ("", "Authorization: Bearer wrong", "Authorization: Basic s3cret", "Authorization: s3cret"):
        status, body = await exchange(opened, "GET /metrics HTTP/1.1", *filter(None, [header]))
        assert (status, b"headrace_" in body) == (401, False)
    status, body = await exchange(opened, "GET /metrics HTTP/1.1", "Host: x", "aUthorization: bearer s3cret")
    assert (status, b"headrace_loop_delay_seconds_count" in body, b"process_cpu_seconds_total" in body) == (200, True, True)


async def test_without_a_token_metrics_are_for_all(health):
    assert (await HealthServer(health).answer("GET /metrics HTTP/1.1")).status == 200


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("POST /metrics HTTP/1.1", 405),
        ("DELETE /livez HTTP/1.1", 405),
        ("GET /nothing HTTP/1.1", 404),
        ("GET /../livez HTTP/1.1", 404),
        ("GET", 400),
        ("GET /livez SPDY", 400),
        ("", 400),
        ("\x16\x03\x01 \x02 \x00", 400),
    ],
)
async def test_everything_else_is_refused(opened, request_line, status):
    assert (await exchange(opened, request_line))[0] == status


async def test_a_head_has_no_body(opened):
    assert await exchange(opened, "HEAD /livez HTTP/1.1") == (200, b"")


async def test_what_is_too_long_gets_no_answer_and_ends_nothing(opened):
    reader, writer = await asyncio.open_connection("127.0.0.1", opened.port)
    writer.write(b"GET /livez HTTP/1.1\r\n" + b"x: " + b"y" * (2 * http.REQUEST_MAX) + b"\r\n\r\n")
    assert await reader.read(-1) == b""
    writer.close()
    assert await exchange(opened, "GET /livez HTTP/1.1") == (200, b"ok\n")


async def test_those_who_say_nothing_are_few_and_are_let_go(opened, monkeypatch):
    monkeypatch.setattr(http, "REQUEST_WITHIN", 0.2)
    silent = [await asyncio.open_connection("127.0.0.1", opened.port) for _ in range(http.CONNECTIONS_MAX + 4)]
    answers = await asyncio.gather(*(reader.read(-1) for reader, _ in silent))
    assert answers == [b""] * len(silent)
    for _, writer in silent:
        writer.close()
    assert await exchange(opened, "GET /livez HTTP/1.1") == (200, b"ok\n")


async def test_how_late_the_loop_is_is_seen(opened, health, monkeypatch):
    monkeypatch.setattr(http, "MEASURE_EVERY", 0.01)
    for _ in range(200):
        if b"headrace_loop_delay_seconds_count 0.0" not in await health.text():
            break
        await asyncio.sleep(0.01)
    else:
        pytest.fail("nobody has looked")
