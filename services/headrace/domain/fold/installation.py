"""The fold of facts about the installation as a whole: the level of facts that may be stated in it (`contracts.facts.levels`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts import facts as f
from headrace.contracts.facts.levels import LEVEL, RELEASES
from headrace.contracts.facts.writers import GOVERNANCE
from headrace.domain.fold.nodes import keep_claims
from headrace.domain.state import capacity
from headrace.domain.state.account_numbers import keep_former

if TYPE_CHECKING:
    from headrace.contracts.facts.records import Record
    from headrace.domain.state.state import State


def beyond_us(record: Record) -> str:
    """Why this release can read nothing behind a record, and the way out; empty where it can."""
    if record.by == GOVERNANCE:
        for fact in record.facts:
            if isinstance(fact, f.InstallationLevelV1) and fact.level > LEVEL:
                return (
                    f"raises the installation to level {fact.level}, and headrace {RELEASES[-1]} reads up to level {LEVEL}: "
                    f"install headrace {fact.release[:40]} or newer here"
                )
    return ""


def _level(state: State, fact: f.InstallationLevelV1, sequence: int, _place: int) -> None:
    """Other rules may hold from here on: what was worked out by the former ones is looked at again."""
    amended = state.terms.amended
    state.terms.level = max(state.terms.level, fact.level)
    if state.terms.amended != amended:
        state.documents_sequence = sequence
        for pool in state.pools.values():
            capacity.weigh(state, pool)
        state.stir()
        keep_former(state)
        keep_claims(state)


def _storage(state: State, fact: f.StorageStatedV1, _sequence: int, _place: int) -> None:
    state.terms.scarce = fact.scarce


HANDLERS: dict[type, Any] = {f.InstallationLevelV1: _level, f.StorageStatedV1: _storage}
