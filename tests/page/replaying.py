"""The page over recorded answers: the files as the API serves them, and what an installation answered at one moment (`recording`)."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
from playwright.sync_api import Browser, Page, expect

from headrace.governance.api.pages import INDEX, page_files

RECORDED = Path(__file__).parent / "recorded.json"
WATCH = "/v1/overview:watch"


class Recorded(msgspec.Struct):
    """What an installation answered. `now`: the time of the browser; `answers`: by method, address and digest of what was sent;
    `watched`: the first lines of the stream; `screens`: addresses by the picture's name."""

    now: datetime
    screens: dict[str, str]
    watched: list[Any]
    answers: dict[str, Any]


def key_of(method: str, address: str, sent: bytes) -> str:
    digest = hashlib.sha256(json.dumps(json.loads(sent), sort_keys=True).encode()).hexdigest()[:12] if sent else ""
    return " ".join(filter(None, (method, address, digest)))


def read() -> Recorded:
    return msgspec.json.decode(RECORDED.read_bytes(), type=Recorded)


@contextmanager
def replayed(recorded: Recorded) -> Iterator[str]:
    """The address of a server that gives the recorded answers, and keeps the stream open."""
    ends = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def answer(self, content_type: str, content: bytes, *more: tuple[str, str]) -> None:
            self.send_response(200)
            for name, value in (("content-type", content_type), ("content-length", str(len(content))), *more):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == WATCH:
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.end_headers()
                self.wfile.write(b"".join(json.dumps(line).encode() + b"\n" for line in recorded.watched))
                self.wfile.flush()
                ends.wait()
            elif path.startswith("/page"):
                file = page_files()[path.removeprefix("/page").strip("/") or INDEX]
                self.answer(file.content_type, file.content, ("content-encoding", "gzip"))
            else:
                self.recorded(b"")

        def do_POST(self) -> None:
            self.recorded(self.rfile.read(int(self.headers["content-length"])))

        def recorded(self, sent: bytes) -> None:
            found = recorded.answers.get(key_of(self.command, self.path, sent))
            if found is None:
                self.send_error(404)
            else:
                self.answer("application/json", json.dumps(found).encode())

        def log_message(self, *_: Any) -> None:
            """Nothing is printed for each request."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        ends.set()
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def looking(browser: Browser, address: str, now: datetime, token: str, **settings: Any) -> Iterator[Page]:
    """A page at one moment, in English and UTC, where nothing moves."""
    context = browser.new_context(
        **({"viewport": {"width": 1280, "height": 860}, "color_scheme": "dark"} | settings),
        timezone_id="UTC",
        locale="en-GB",
        reduced_motion="reduce",
    )
    try:
        page = context.new_page()
        page.clock.set_fixed_time(now)
        page.goto(f"{address}/page#token={token}")
        expect(page.get_by_role("status").first).to_contain_text("live")
        page.evaluate("document.fonts.ready")
        yield page
    finally:
        context.close()
