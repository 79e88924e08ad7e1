"""Requests to the health server of another process, for the command line."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

import msgspec

from headrace.health.http import READY

WITHIN = 1.5
"""Maximum duration of a request, in seconds."""
READ_MAX = 64 * 1024


class Readiness(msgspec.Struct):
    """The body of an answer of `/readyz`."""

    name: str = ""
    ready: bool = False
    role: str = ""
    checks: dict[str, str] = {}

    @property
    def wrong(self) -> str:
        """The problems of all checks on one line; "" if all hold."""
        return "; ".join(f"{check}: {what}" for check, what in self.checks.items() if what)


async def ask(address: str, within: float = WITHIN) -> Readiness | None:
    """The readiness of the process at an address such as `127.0.0.1:9101`; None if it does not answer in time."""
    host, _, port = address.rpartition(":")
    writer = None
    try:
        async with asyncio.timeout(within):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            writer.write(f"GET {READY} HTTP/1.1\r\nhost: {address}\r\n\r\n".encode())
            answer = await reader.read(-1)
        return msgspec.json.decode(answer[:READ_MAX].partition(b"\r\n\r\n")[2], type=Readiness)
    except (OSError, TimeoutError, ValueError):
        return None
    finally:
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def ask_all(pages: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """Address of the metrics and health of each process, by the keys of `pages`."""
    answers = await asyncio.gather(*(ask(address) for address in pages.values()))
    return {
        name: {
            "metrics": address,
            "ready": said is not None and said.ready,
            "health": "no answer" if said is None else said.wrong,
        }
        for (name, address), said in zip(pages.items(), answers, strict=True)
    }
