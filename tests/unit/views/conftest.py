"""The same small histories as the feed's."""

from __future__ import annotations

from tests.unit.feed.conftest import hall, policy_of, story

__all__ = ["hall", "policy_of", "story"]
