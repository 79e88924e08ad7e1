"""Keeps what the API server stores of one collection: a list, then its changes, and a new list whenever changes may have been missed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from headrace.kubernetes.acting import ApiAway, ApiRefused
from headrace.kubernetes.api import KubernetesApi

AGAIN_FIRST, AGAIN_MAX = 0.2, 10.0
"""Seconds until a collection is listed or watched again after an error: the pause doubles."""

_log = structlog.get_logger("headrace.kubernetes")


class Collection:
    """The objects at one path by (namespace, name). `changed` is called after each change."""

    def __init__(self, api: KubernetesApi, path: str, changed: Callable[[], None]) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.listed = False
        """Whether they were listed at least once."""
        self.lists = 0
        self.trouble = ""
        self._api = api
        self._path = path
        self._changed = changed
        self._version = ""

    async def run(self) -> None:
        """Keep up until cancelled."""
        pause = AGAIN_FIRST
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._follow()
                self.trouble, pause = "", AGAIN_FIRST
            except ApiRefused as error:
                self._version = ""  # too old, or forbidden: what is known may be out of date
                self.trouble = "" if error.status == 410 else str(error)
                _log.info("listed_again", path=self._path, status=error.status, reason=str(error))
            except ApiAway as error:
                self.trouble = str(error)
                _log.info("watched_again", path=self._path, reason=str(error))
            if self.trouble:
                await asyncio.sleep(pause)
                pause = min(2 * pause, AGAIN_MAX)

    async def _list(self) -> None:
        found = await self._api.list(self._path)
        self.objects = {_key(raw): raw for raw in found.items}
        self._version, self.listed, self.trouble = found.version, True, ""
        self.lists += 1
        self._changed()

    async def _follow(self) -> None:
        async for type_, raw in self._api.watch(self._path, self._version):
            self._version = (raw.get("metadata") or {}).get("resourceVersion") or self._version
            if type_ == "BOOKMARK":
                continue
            if type_ == "DELETED":
                self.objects.pop(_key(raw), None)
            else:
                self.objects[_key(raw)] = raw
            self._changed()


def _key(raw: dict[str, Any]) -> tuple[str, str]:
    meta = raw.get("metadata") or {}
    return meta.get("namespace", ""), meta.get("name", "")
