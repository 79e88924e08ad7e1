"""A NATS client that answers what a test wrote down."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any


class Scripted:
    """A connection that answers from a script and keeps what it was asked."""

    several = False

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, bytes, dict[str, str]]] = []
        self.within: list[float | None] = []

    async def ask(
        self, subject: str, payload: bytes = b"", headers: dict[str, str] | None = None, within: float | None = None
    ) -> Any:
        self.asked.append((subject, payload, headers or {}))
        self.within.append(within)
        answer = self._answers.pop(0)
        return (
            answer if isinstance(answer, SimpleNamespace) else SimpleNamespace(data=json.dumps(answer).encode(), headers=None)
        )
