"""An API server over real HTTP in front of the model of a cluster: lists by pages, watches that lag, end and grow too old, lost answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.kubernetes.cluster import Cluster, Refusal, selected

TOKEN = "the-bridges-token"
POD = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)(?:/([a-z]+))?")
OF_NAMESPACE = re.compile(r"/api/v1/namespaces/([^/]+)/(pods|events)")


class FakeApi:
    """`lost`: number of the next changing calls whose answer is lost, half of them before their effect."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.lost = 0
        self.calls: list[tuple[str, str]] = []
        self._server: asyncio.Server | None = None
        self._watches: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def drop_watches(self) -> None:
        """End every watch in the middle."""
        for writer in self._watches:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, OSError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            self._watches.discard(writer)
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.split("\r\n")
        verb, target, _ = first.split(" ")
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(fields.get("content-length", 0)))
        url = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        self.calls.append((verb, url.path))
        loses = verb != "GET" and self.lost > 0
        if loses:
            self.lost -= 1
            if self.lost % 2:
                return False
        try:
            if fields.get("authorization") != f"Bearer {TOKEN}":
                raise Refusal(401, "Unauthorized")  # noqa: TRY301
            if query.get("watch"):
                await self._watch(writer, url.path, int(query["resourceVersion"]))
                return False
            status, answer = 200, self._answer(verb, url.path, query, json.loads(body) if body else {})
        except Refusal as error:
            status, answer = error.status, {"kind": "Status", "code": error.status, "message": str(error)}
        if loses:
            return False
        payload = json.dumps(answer).encode()
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n".encode()
        )
        writer.write(payload)
        await writer.drain()
        return True

    def _answer(self, verb: str, path: str, query: dict[str, str], body: Any) -> Any:
        cluster = self.cluster
        if path in ("/api/v1/pods", "/api/v1/nodes") and verb == "GET":
            return self._page(path.rpartition("/")[2], "", query)
        if path.startswith("/api/v1/nodes/") and verb == "PATCH":
            return cluster.patch("nodes", "", path.split("/")[4], body, path.split("/")[5])
        if path == "/api/v1/namespaces" and verb == "POST":
            return body
        if path.startswith("/api/v1/namespaces/") and verb == "DELETE" and path.count("/") == 4:
            return {}
        if (match := OF_NAMESPACE.fullmatch(path)) is not None:
            if verb == "GET":
                return self._page(match[2], match[1], query)
            if match[2] == "events":
                cluster.record_event(match[1], body)
                return body
            body["metadata"]["namespace"] = match[1]
            return cluster.create("pods", body, gated=False)
        match = POD.fullmatch(path)
        if match is None:
            raise Refusal(404, f"no such path: {verb} {path}")
        namespace, name, sub = match[1], match[2], match[3] or ""
        if verb == "PATCH":
            return cluster.patch("pods", namespace, name, body, sub)
        if verb == "DELETE":
            cluster.delete(namespace, name, body)
        elif sub == "eviction":
            cluster.evict(namespace, name, body)
        return {"kind": "Status"} if verb != "GET" else cluster.get("pods", namespace, name)

    def _page(self, kind: str, namespace: str, query: dict[str, str]) -> Any:
        items = self.cluster.list(kind, namespace, query.get("labelSelector", ""))
        start, most = int(query.get("continue", 0)), int(query.get("limit", 500))
        meta = {"resourceVersion": str(self.cluster.version)}
        if start + most < len(items):
            meta["continue"] = str(start + most)
        return {"items": items[start : start + most], "metadata": meta}

    async def _watch(self, writer: asyncio.StreamWriter, path: str, version: int) -> None:
        """Send changes as they come, in chunks, with a bookmark now and then."""
        kind = path.rpartition("/")[2]
        self._watches.add(writer)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            try:
                changes = self.cluster.since(version)
            except Refusal as error:
                self._send(writer, {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": str(error)}})
                writer.write(b"0\r\n\r\n")
                await writer.drain()
                return
            for change in changes:
                if change.kind == kind and selected(change.raw, ""):
                    self._send(writer, {"type": change.type, "object": change.raw})
                version = change.version
            if changes:
                self._send(writer, {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}})
            await writer.drain()
            await asyncio.sleep(0.005)

    def _send(self, writer: asyncio.StreamWriter, event: Any) -> None:
        line = json.dumps(event).encode() + b"\n"
        writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
