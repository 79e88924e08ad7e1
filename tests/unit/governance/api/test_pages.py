"""The files of the page: their types, their headers, and what is not there."""

from __future__ import annotations

import gzip

import pytest
from grpc import StatusCode

from headrace.contracts.api import pages_pb2 as pb
from headrace.governance.api.pages import get_page, page_files


class Context:
    """A call that notes what it is told."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}

    async def send_initial_metadata(self, headers) -> None:
        self.headers.update(headers)

    async def abort(self, code, message) -> None:
        raise ConnectionAbortedError(code, message)


async def test_the_page_is_sent_compressed_and_with_a_strict_policy() -> None:
    context = Context()
    body = await get_page(pb.GetPageRequest(), context)
    assert body.content_type == "text/html; charset=utf-8"
    assert b'<div id="app">' in gzip.decompress(body.data)
    assert context.headers["content-encoding"] == "gzip"
    assert context.headers["cache-control"] == "no-cache"
    assert "default-src 'none'" in context.headers["content-security-policy"]
    assert "unsafe" not in context.headers["content-security-policy"]


async def test_files_whose_names_change_with_their_content_are_cached_for_ever() -> None:
    name = next(name for name in page_files() if name.endswith(".js"))
    context = Context()
    body = await get_page(pb.GetPageRequest(file=name), context)
    assert body.content_type == "text/javascript; charset=utf-8"
    assert context.headers["cache-control"] == "public, max-age=31536000, immutable"


@pytest.mark.parametrize("name", ["nothing.js", "../__init__.py", "index.html.gz", "%00"])
async def test_what_is_not_a_file_of_the_page_is_not_found(name) -> None:
    with pytest.raises(ConnectionAbortedError, match="the page has no file") as refused:
        await get_page(pb.GetPageRequest(file=name), Context())
    assert refused.value.args[0] is StatusCode.NOT_FOUND


def test_everything_together_is_small() -> None:
    assert sum(len(file.content) for file in page_files().values()) < 250_000


def test_the_page_loads_nothing_from_elsewhere() -> None:
    texts = {name: file for name, file in page_files().items() if not file.content_type.startswith("font/")}
    for name, file in texts.items():
        text = gzip.decompress(file.content).decode()
        found = [part for part in text.split('"') if part.startswith(("http://", "https://"))]
        assert [part for part in found if "w3.org" not in part and "svelte.dev" not in part] == [], name
