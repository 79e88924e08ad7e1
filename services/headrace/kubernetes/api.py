"""Calls to the API server over HTTP, as the service account of the bridge's pod or as a kubeconfig says.

An answer below 500 that is an error is a refusal; anything else, and no answer, leaves open what has happened.
"""

from __future__ import annotations

import base64
import ssl
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import httpx
import msgspec
import yaml

from headrace.kubernetes.acting import GONE, ApiAway, ApiRefused
from headrace.kubernetes.objects import Json

IN_POD = Path("/var/run/secrets/kubernetes.io/serviceaccount")
PAGE = 500
WATCH_FOR = 240
"""Seconds after which a watch is begun anew; the server ends it by then."""
ANSWER_WITHIN = 15.0
MERGE = "application/merge-patch+json"


class Access(NamedTuple):
    """Where the API server is, and how to be known there. `token_file` is read again for each call, because tokens are renewed."""

    server: str
    token_file: str = ""
    token: str = ""
    context: ssl.SSLContext | None = None


class BadKubeconfig(Exception):
    """The kubeconfig cannot be used; the message says why."""


def in_pod(host: str, port: str) -> Access:
    """Access as the service account of this pod. Raises OSError without one."""
    context = ssl.create_default_context(cafile=str(IN_POD / "ca.crt"))
    return Access(f"https://{f'[{host}]' if ':' in host else host}:{port}", str(IN_POD / "token"), context=context)


def from_kubeconfig(path: Path) -> Access:
    """Access by the current context of a kubeconfig with a token or a client certificate. Raises BadKubeconfig, OSError."""
    try:
        config = yaml.safe_load(path.read_text("utf-8"))
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        server = cluster["server"]
    except (yaml.YAMLError, KeyError, TypeError, StopIteration) as error:
        raise BadKubeconfig(f"{path}: no usable current context: {error}") from None
    tls = None
    if server.startswith("https://"):
        authority = _data(cluster, "certificate-authority")
        tls = ssl.create_default_context(cadata=authority.decode() if authority else None)
        certificate, key = _data(user, "client-certificate"), _data(user, "client-key")
        if certificate and key:
            with tempfile.NamedTemporaryFile() as file:
                file.write(certificate + b"\n" + key)
                file.flush()
                tls.load_cert_chain(file.name)
    if "exec" in user or "auth-provider" in user:
        raise BadKubeconfig(f"{path}: logins by a program are not supported; use a token or a client certificate")
    return Access(server, user.get("tokenFile", ""), user.get("token", ""), tls)


def _named(entries: Sequence[Any], name: str) -> Any:
    return next(entry for entry in entries if entry["name"] == name)


def _data(entry: Json, name: str) -> bytes:
    if f"{name}-data" in entry:
        return base64.b64decode(entry[f"{name}-data"])
    return Path(entry[name]).read_bytes() if name in entry else b""


class Listed(NamedTuple):
    """Objects, and the version from which to watch."""

    items: list[dict[str, Any]]
    version: str


class KubernetesApi:
    """The calls. Each raises ApiRefused or ApiAway."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._http = httpx.AsyncClient(
            base_url=access.server,
            verify=access.context if access.context is not None else True,
            timeout=ANSWER_WITHIN,
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=32),
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def patch(self, namespace: str, name: str, patch: Json, subresource: str = "") -> None:
        """Apply a merge patch to a pod, or to its `status`."""
        await self.call("PATCH", _pod(namespace, name, subresource), patch, MERGE)

    async def evict(self, namespace: str, name: str, body: Json) -> None:
        """Evict a pod, with the options of its deletion."""
        await self.call("POST", _pod(namespace, name, "eviction"), body)

    async def delete(self, namespace: str, name: str, options: Json) -> None:
        """Delete a pod, with these options."""
        await self.call("DELETE", _pod(namespace, name), options)

    async def record_event(self, namespace: str, event: Json) -> None:
        """Write an event about a pod."""
        await self.call("POST", f"/api/v1/namespaces/{namespace}/events", event)

    async def look(self, namespace: str, selector: str) -> Sequence[Json]:
        """The pods that a label selector finds, as they are stored now; `namespace` empty: in all."""
        path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        return (await self.list(path, selector)).items

    async def list(self, path: str, selector: str = "") -> Listed:
        """All objects of a collection as they are stored now, page by page."""
        items: list[dict[str, Any]] = []
        query = {"labelSelector": selector, "limit": str(PAGE), "continue": ""}
        while True:
            answer = await self.call("GET", path, query={key: text for key, text in query.items() if text})
            items += answer.get("items") or ()
            meta = answer.get("metadata") or {}
            query["continue"] = meta.get("continue") or ""
            if not query["continue"]:
                return Listed(items, meta.get("resourceVersion", ""))

    async def watch(self, path: str, version: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Changes of a collection after a version, until the server ends the stream. Raises ApiRefused with 410 if it is too old."""
        query = {"watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_FOR)}
        timeout = httpx.Timeout(ANSWER_WITHIN, read=WATCH_FOR + ANSWER_WITHIN)
        try:
            async with self._http.stream("GET", path, params=query, headers=self._login(), timeout=timeout) as answer:
                if answer.status_code >= 300:
                    await answer.aread()
                    _raise(answer)
                async for line in answer.aiter_lines():
                    if line:
                        yield _change(line)
        except httpx.HTTPError as error:
            raise ApiAway(str(error) or type(error).__name__) from None

    async def call(
        self, verb: str, path: str, body: object = None, kind: str = "application/json", query: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """The answer to any call. `kind`: the media type of the body."""
        headers = self._login() | ({"Content-Type": kind} if body is not None else {})
        try:
            content = msgspec.json.encode(body) if body is not None else None
            answer = await self._http.request(verb, path, content=content, headers=headers, params=query)
        except httpx.HTTPError as error:
            raise ApiAway(str(error) or type(error).__name__) from None
        if answer.status_code >= 300:
            _raise(answer)
        return _object(answer.content)

    def _login(self) -> dict[str, str]:
        token = self._access.token
        if self._access.token_file:
            try:
                token = Path(self._access.token_file).read_text("ascii").strip()
            except OSError as error:
                raise ApiAway(f"the token cannot be read: {error}") from None
        return {"Authorization": f"Bearer {token}"} if token else {}


def _pod(namespace: str, name: str, subresource: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}" + (f"/{subresource}" if subresource else "")


def _object(content: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise ApiAway(f"the answer cannot be read: {error}") from None
    if not isinstance(found, dict):
        raise ApiAway("the answer is not an object")
    return found


def _raise(answer: httpx.Response) -> None:
    try:
        message = str(msgspec.json.decode(answer.content).get("message", ""))
    except (msgspec.DecodeError, AttributeError):
        message = answer.text[:200]
    if answer.status_code >= 500:
        raise ApiAway(f"HTTP {answer.status_code}: {message}", answer.status_code)
    raise ApiRefused(answer.status_code, message)


def _change(line: str) -> tuple[str, dict[str, Any]]:
    change = _object(line.encode())
    raw = change.get("object") or {}
    if change.get("type") == "ERROR":
        code = raw.get("code", GONE)
        if code >= 500:
            raise ApiAway(raw.get("message", ""))
        raise ApiRefused(code, raw.get("message", ""))
    return change.get("type", ""), raw
