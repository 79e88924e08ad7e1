"""Shows people who were erased under their pseudonym, in everything that is shown. Pure.

The records keep the handle, because records are never changed; readers of Headrace see the pseudonym, the same one everywhere.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import asker_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.domain.state.state import State

T = TypeVar("T")

Erased = tuple[tuple[str, str, str], ...]
"""(tenant, handle, pseudonym) of each."""

_ONE = ("user", "handle", "service_account", "owner", "on_behalf_of")
_MANY = ("members", "admins", "service_accounts", "beyond_limit", "on_behalf", "submitters")
_SENTENCE = "message"
_NAMING = ("job", "subject", "user", "on_behalf_of")
"""Fields that name the person whom a message beside them is about."""
_ULID = "[0-7][0-9a-hjkmnp-tv-z]{25}"


def erased_of(state: State) -> Erased:
    """All people who were erased."""
    return tuple((tenant, handle, pseudonym) for (tenant, handle), pseudonym in sorted(state.tokens.erased.items()))


def name(state: State, tenant: str, handle: str) -> str:
    """The handle, or the pseudonym of a person who was erased."""
    return state.tokens.erased.get((tenant, handle), handle)


def meant(state: State, tenant: str, text: str) -> str | None:
    """Handle that a query means: of a pseudonym the person's; None for the handle of a person who was erased."""
    for (owner, handle), pseudonym in state.tokens.erased.items():
        if owner == tenant and text in (handle, pseudonym):
            return handle if text == pseudonym else None
    return text


def with_names(state: State, text: str) -> str:
    """A text with people named by tenant and handle (`acme.alice`, `acme/alice`): a sentence, a job's key or a subject of SUBMIT."""
    return _with_pseudonyms(erased_of(state), text) if state.tokens.erased else text


def with_handles(state: State, text: str, fact: object) -> str:
    """A text about a fact, in which people of its job or submission may be named by their handle alone."""
    if not state.tokens.erased:
        return text
    fields = {name: getattr(fact, name, "") for name in _NAMING}
    return _sentence(erased_of(state), text, fields, str(getattr(fact, "tenant", "")))


def shown(state: State, value: Any, tenant: str = "") -> Any:
    """Any value of mappings, lists and texts. `tenant`: its tenant, if the value does not name it."""
    return _shown(erased_of(state), state.tokens.erased, value, tenant) if state.tokens.erased else value


def seen(state: State, view: T, tenant: str = "") -> T:
    """A view, or a list of views, with pseudonyms."""
    if not state.tokens.erased or not may_name(state, encode(view)):
        return view
    made = _shown(erased_of(state), state.tokens.erased, msgspec.to_builtins(view), tenant)
    if isinstance(view, list):
        return type(view)(map(msgspec.convert, made, map(type, view)))
    return msgspec.convert(made, type(view))


def written(state: State, message: dict[str, Any], tenant: str) -> bytes:
    """A message to a tenant, encoded, with pseudonyms."""
    payload = encode(message)
    return encode(shown(state, msgspec.to_builtins(message), tenant)) if may_name(state, payload) else payload


def may_name(state: State, written: bytes) -> bool:
    """True if the encoded text has the handle of an erased person, even if another person is meant."""
    return bool(state.tokens.erased) and _handles(erased_of(state)).search(written) is not None


def _with_pseudonyms(erased: Erased, text: str) -> str:
    return _pattern(erased).sub(lambda match: f"{match[1]}{match[2]}{_of(erased)[match[1], match[3]]}", text)


def _shown(erased: Erased, names: Mapping[tuple[str, str], str], value: Any, tenant: str) -> Any:
    if isinstance(value, str):
        return _with_pseudonyms(erased, value)
    if isinstance(value, list | tuple):
        return [_shown(erased, names, each, tenant) for each in value]
    if not isinstance(value, dict):
        return value
    own = value.get("tenant")
    tenant = own if isinstance(own, str) else tenant
    made = {key: _shown(erased, names, each, tenant) for key, each in value.items()}
    for key in _ONE:
        if isinstance(made.get(key), str):
            made[key] = names.get((tenant or _tenant_in(value), made[key]), made[key])
    for key in _MANY:
        if isinstance(made.get(key), list):
            made[key] = [names.get((tenant, each), each) if isinstance(each, str) else each for each in made[key]]
    if isinstance(made.get(_SENTENCE), str):
        made[_SENTENCE] = _sentence(erased, made[_SENTENCE], value, tenant)
    return made


def _sentence(erased: Erased, text: str, fields: Mapping[str, Any], tenant: str) -> str:
    """`_with_pseudonyms`, also for handles alone: of people in `fields`, and of owners of jobs of their tenant (`alice's 01jd...`)."""
    text, tenant = _with_pseudonyms(erased, text), tenant or _tenant_in(fields)
    people = {str(fields.get(name, "")) for name in ("user", "on_behalf_of")} | {_user_in(fields)}
    for owner, handle, pseudonym in erased:
        if owner == tenant:
            end = r"(?![a-z0-9-])" if handle in people else rf"(?='s {_ULID})"
            text = re.sub(rf"(?<![a-z0-9./-]){re.escape(handle)}{end}", pseudonym, text)
    return text


def _tenant_in(fields: Mapping[str, Any]) -> str:
    """Tenant of the job or the submission."""
    return str(fields.get("job", "")).partition(".")[0] or asker_of(str(fields.get("subject", "")))[0]


def _user_in(fields: Mapping[str, Any]) -> str:
    _, _, rest = str(fields.get("job", "")).partition(".")
    return rest.partition(".")[0] or asker_of(str(fields.get("subject", "")))[1]


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
    return re.compile(
        rf"(?:(?<![a-z0-9./-])|(?<=hr\.submit\.)|(?<=hr\.cancel\.)|(?<=hr\.requeue\.)|(?<=\.by\.))({each})([./])([a-z0-9-]+)"
    )


@lru_cache(maxsize=8)
def _handles(erased: Erased) -> re.Pattern[bytes]:
    return re.compile(rb"(?<![a-z0-9-])(?:%s)(?![a-z0-9-])" % b"|".join(re.escape(handle).encode() for _, handle, _ in erased))
