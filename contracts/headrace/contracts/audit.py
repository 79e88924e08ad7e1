"""Questions about the history, and their answers: plain messages, no facts."""

from __future__ import annotations

from typing import Any

from headrace.contracts.facts.fact import Value


class AuditRequest(Value, frozen=True, kw_only=True):
    """To *accounting* `audit`: the facts that the asker's tenant may read, in order, behind the record `after`. Empty fields do not filter.

    `since`, `until`: log time, microseconds. `job`: an id or a key; what it had to yield to is of it. `user`: whose jobs. `kinds`: such as
    `lease` or `lease.granted`. `causes`: a job, a record (`81234`), or a fact (`81234.2`): with what led to it, and what came of it.
    A provider's admin asks *provider* `audit` the same of all tenants.
    """

    after: int = 0
    since: int = 0
    until: int = 0
    job: str = ""
    user: str = ""
    node: str = ""
    kinds: tuple[str, ...] = ()
    causes: str = ""
    limit: int = 500


class AuditLine(Value, frozen=True, kw_only=True):
    """One fact: its record and place there, who stated it when (log time), on what (`as_of`), with which software, what, and by which rule.

    `fact` is the fact itself, so far as the asker may read it. `because`: the facts it answers, as `81234.2`, where causes were asked for.
    """

    sequence: int
    place: int
    at: int
    by: str
    type: str
    about: str
    text: str
    rule: str = ""
    as_of: int = 0
    engine: str = ""
    cause: str = ""
    fact: dict[str, Any] = {}
    because: tuple[str, ...] = ()


class AuditAnswer(Value, frozen=True, kw_only=True):
    """A page. `next`: ask again with `after` that, though nothing was found here; 0: that was all, through the record `through`."""

    through: int
    lines: tuple[AuditLine, ...] = ()
    next: int = 0
