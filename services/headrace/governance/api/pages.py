"""The page in a browser: files that are built from `services/headrace/dashboard/web` and are part of the package.

They contain no data and need no token; what the page shows it asks of the API with the token of its user.
"""

from __future__ import annotations

import gzip
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from google.api import httpbody_pb2
from grpc import StatusCode

from headrace.governance.api.errors import shown

INDEX = "index.html"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = (
    ("content-encoding", "gzip"),
    ("content-security-policy", _POLICY),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
)
_REVALIDATED, _FOR_EVER = "no-cache", "public, max-age=31536000, immutable"
"""Caching of the page, and of files whose names contain a digest of their content."""


class PageFile(NamedTuple):
    """A file as it is sent: compressed with gzip."""

    content_type: str
    content: bytes
    caching: str


@cache
def page_files() -> dict[str, PageFile]:
    """The files of the page, by name."""
    found = {}
    for file in files("headrace.dashboard").joinpath("static").iterdir():
        kind = _TYPES.get("." + file.name.rpartition(".")[2])
        if kind is not None:
            content = gzip.compress(file.read_bytes(), mtime=0)
            found[file.name] = PageFile(kind, content, _FOR_EVER if "-" in file.name else _REVALIDATED)
    return found


async def get_page(request: Any, context: Any) -> Any:
    """The page, or one of its files."""
    name = request.file if request is not None else ""
    file = page_files().get(name or INDEX)
    if file is None:
        await context.abort(StatusCode.NOT_FOUND, f"file: the page has no file {shown(name)!r}")
        return None
    await context.send_initial_metadata((*_HEADERS, ("cache-control", file.caching)))
    return httpbody_pb2.HttpBody(content_type=file.content_type, data=file.content)
