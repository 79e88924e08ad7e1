"""Field masks: fields named by the mask are taken from the new document, all others are kept. Pure.

Documents are plain values here (dicts, lists, text). A path that the new document lacks is reset to its default.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from headrace.governance.api.errors import invalid, shown

Written = dict[str, object]

PATHS_MAX = 100
EVERYTHING = "*"


def merged(now: Written, new: Written, mask: Iterable[str], fields: Collection[str]) -> Written:
    """`now` with the fields of `mask` taken from `new`; an empty mask means the fields of `new`. `fields`: those that can be written."""
    paths = list(mask)[: PATHS_MAX + 1]
    if len(paths) > PATHS_MAX:
        raise invalid("update_mask", f"at most {PATHS_MAX} fields")
    if EVERYTHING in paths:
        return {key: value for key, value in now.items() if key not in fields} | new
    found = _copy(now)
    for path in paths or list(new):
        steps = path.split(".")
        if steps[0] not in fields:
            raise invalid(
                "update_mask", f"there is no field {shown(path)!r} to be written; there are {', '.join(sorted(fields))}"
            )
        _take(found, new, steps, path)
    return found


def _take(found: Written, new: object, steps: list[str], path: str) -> None:
    step, *rest = steps
    value = new.get(step) if isinstance(new, dict) else None
    if not rest:
        if value is None:
            found.pop(step, None)
        else:
            found[step] = value
        return
    inner = found.get(step)
    if inner is None:
        inner = found[step] = {}
    if not isinstance(inner, dict):
        raise invalid("update_mask", f"{shown(path)!r} goes into what has no fields; name the whole of it")
    _take(inner, value, rest, path)


def _copy(written: Written) -> Written:
    return {key: _copy(value) if isinstance(value, dict) else value for key, value in written.items()}
