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


class Finding(Value, frozen=True, kw_only=True):
    """Something that is not as it was written, or not as it would be decided: in the records `sequence` to `through`.

    `kind`: `removed`, `inserted`, `repeated`, `moved`, `changed`, `restamped` (the time of storage is another), `unchained` (a record of a
    service does not name the one before it), `void` (a record of a service that breaks the law), `seal` (a seal that is none), `decision`
    (`recorded` was stated, `computed` is what this engine decides on the same prefix; facts that both have are left out).
    """

    kind: str
    sequence: int
    through: int
    text: str
    recorded: tuple[dict[str, Any], ...] = ()
    computed: tuple[dict[str, Any], ...] = ()


class VerifyReport(Value, frozen=True, kw_only=True):
    """What was looked at, and what was found. Counts are of records, where they are not called `facts`.

    `through`: the last record read. `voids`: void records by node. `recomputed` were decided again, `decision_facts` are their facts;
    `judged`: those of them that are verdicts of admission, judged again as far as the ledger says what was wished; `untold`: verdicts that
    only the wish itself could tell, by reason. `other_engines`: decisions of other software, by its name; `observed`: what follows from
    more than the ledger holds (documents as people wrote them, observations of nodes), by writer; `late`: made on a record too far back.
    `folded`: decisions were followed up to there, and no further because of `stopped`, where it says something. `seals` of the key `key`
    hold, and cover the records up to `sealed_through`. `found`: how many findings there are, of which `findings` are the first.
    """

    through: int = 0
    records: int = 0
    facts: int = 0
    voids: dict[str, int] = {}
    recomputed: int = 0
    decision_facts: int = 0
    judged: int = 0
    untold: dict[str, int] = {}
    other_engines: dict[str, int] = {}
    observed: dict[str, int] = {}
    late: int = 0
    folded: int = 0
    stopped: str = ""
    seals: int = 0
    sealed_through: int = 0
    key: str = ""
    found: int = 0
    findings: tuple[Finding, ...] = ()
