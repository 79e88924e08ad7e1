"""People who were erased, under the name in the place of theirs, in everything that is shown. Pure.

The records keep the handle, because no record is ever touched; whoever looks through Headrace reads the pseudonym, the same one everywhere.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.domain.state import State

Erased = tuple[tuple[str, str, str], ...]
"""(tenant, handle, pseudonym) of each."""

_ONE = ("user", "handle", "service_account", "owner")
_MANY = ("members", "admins", "service_accounts", "beyond_limit", "on_behalf")


def erased_of(state: State) -> Erased:
    """Everybody who was."""
    return tuple((tenant, handle, pseudonym) for (tenant, handle), pseudonym in sorted(state.tokens.erased.items()))


def name(state: State, tenant: str, handle: str) -> str:
    """What somebody is called."""
    return state.tokens.erased.get((tenant, handle), handle)


def told(state: State, text: str) -> str:
    """A sentence, or a job's key, in which people stand with their tenant: `acme.alice`, `acme/alice`."""
    return _told(erased_of(state), text) if state.tokens.erased else text


def shown(state: State, value: Any, tenant: str = "") -> Any:
    """Any value of mappings, lists and texts. `tenant`: whose it is, where it does not say so itself."""
    return _shown(erased_of(state), state.tokens.erased, value, tenant) if state.tokens.erased else value


def _told(erased: Erased, text: str) -> str:
    return _pattern(erased).sub(lambda match: f"{match[1]}{match[2]}{_of(erased)[match[1], match[3]]}", text)


def _shown(erased: Erased, names: Mapping[tuple[str, str], str], value: Any, tenant: str) -> Any:
    if isinstance(value, str):
        return _told(erased, value)
    if isinstance(value, list | tuple):
        return [_shown(erased, names, each, tenant) for each in value]
    if not isinstance(value, dict):
        return value
    own = value.get("tenant")
    tenant = own if isinstance(own, str) else tenant
    made = {key: _shown(erased, names, each, tenant) for key, each in value.items()}
    for key in _ONE:
        if isinstance(made.get(key), str):
            made[key] = names.get((tenant, made[key]), made[key])
    for key in _MANY:
        if isinstance(made.get(key), list):
            made[key] = [names.get((tenant, each), each) if isinstance(each, str) else each for each in made[key]]
    return made


@lru_cache(maxsize=8)
def _of(erased: Erased) -> dict[tuple[str, str], str]:
    return {(tenant, handle): pseudonym for tenant, handle, pseudonym in erased}


@lru_cache(maxsize=8)
def _pattern(erased: Erased) -> re.Pattern[str]:
    tenants: dict[str, list[str]] = {}
    for tenant, handle, _ in erased:
        tenants.setdefault(tenant, []).append(re.escape(handle))
    each = "|".join(
        rf"(?:{re.escape(tenant)})(?=[./](?:{'|'.join(handles)})(?![a-z0-9-]))" for tenant, handles in tenants.items()
    )
    return re.compile(rf"(?<![a-z0-9./-])({each})([./])([a-z0-9-]+)")
