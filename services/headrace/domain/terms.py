"""What holds for a while, as the fold keeps it: what is closed (R11)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Closing:
    """An object under which nothing is granted (R11): `mode` is `freeze`, `drain` or `cancel`; asked for by `author` at `at`."""

    kind: str
    tenant: str
    name: str
    mode: str
    author: str
    at: int
