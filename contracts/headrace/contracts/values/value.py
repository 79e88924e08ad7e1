"""The base of every value in facts and messages."""

from __future__ import annotations

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A part of a fact or message. Unknown fields are tolerated: a newer writer may add one with a default."""
