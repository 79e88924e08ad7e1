"""Queries about the history, and their answers; not facts."""

from __future__ import annotations

from typing import Any

from headrace.contracts.values.value import Value


class AuditRequest(Value, frozen=True, kw_only=True):
    """To *accounting* `audit`: the facts that the asker's tenant may read, in order, after the record `after`. Empty fields do not filter.

    `since`, `until`: log time, microseconds. `job`: an id or a key; includes the preemption that stopped it. `user`: the owner of jobs.
    `kinds`:
    such as `lease` or `lease.granted`. `causes`: a job, a record (`81234`), or a fact (`81234.2`): with its causes and its consequences.
    A provider's administrator sends *provider* `audit` for all tenants.
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
    """One fact: its record and index there, who stated it, when (log time), on what (`as_of`), with which software, and by which rule.

    `fact` is the fact itself, as far as the asker may read it. `because`: the facts that caused it, as `81234.2`, if causes were asked for.
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
    """A page. `next`: ask again with this as `after`, even if `lines` is empty; 0: this is the last page, up to the record `through`."""

    through: int
    lines: tuple[AuditLine, ...] = ()
    next: int = 0


class Finding(Value, frozen=True, kw_only=True):
    """A deviation from what was written, or from what would be decided, in the records `sequence` to `through`.

    `kind`: `removed`, `inserted`, `repeated`, `moved`, `changed`, `restamped` (the time of storage differs), `unchained` (a record of a
    service does not name the one before it), `void` (a record of a service that breaks the law), `seal` (an invalid seal), `decision`
    (`recorded` was stated, `computed` is what this engine decides on the same prefix; facts in both are left out).
    """

    kind: str
    sequence: int
    through: int
    text: str
    recorded: tuple[dict[str, Any], ...] = ()
    computed: tuple[dict[str, Any], ...] = ()


class VerifyReport(Value, frozen=True, kw_only=True):
    """What was verified, and the findings. Counts are of records, unless called `facts`.

    `through`: the last record read. `voids`: void records by node. `recomputed` were decided again, `decision_facts` are their facts;
    `judged`: those of them that are verdicts of admission, judged again as far as the ledger has the submission; `untold`: verdicts that
    need the submission itself, by reason. `other_engines`: decisions of other software, by its name; `observed`: facts that follow from
    more than the ledger holds (documents as people wrote them, observations of nodes), by writer; `late`: decided on a record too far back.
    `folded`: decisions were recomputed up to this record; `stopped`: why no further, or empty. `seals`: number of valid seals of the key
    `key`,
    which cover the records up to `sealed_through`; `seal_age`: seconds since the last one, while records wait for one.
    `found`: number of findings; `findings` has the first.
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
    seal_age: int = 0
    key: str = ""
    found: int = 0
    findings: tuple[Finding, ...] = ()


class TimelineRequest(Value, frozen=True, kw_only=True):
    """To *accounting* `timeline`: use and events of a period in `bins` parts of equal length; to *provider* `timeline`: of all tenants.

    `since`, `until`: log time, microseconds; 0: a day, as far as the books reach.
    """

    since: int = 0
    until: int = 0
    bins: int = 200


class PoolBins(Value, frozen=True, kw_only=True):
    """One pool, by bin: thousandths of a GPU on average over the bin, and numbers of preemptions and of ordered instances.

    `usable`, `used` and `kept` are of all tenants; `reserved`, `borrowed` and `preemptions` of the asker's; `growth` is for the provider.
    """

    pool: str
    usable: tuple[int, ...]
    used: tuple[int, ...]
    reserved: tuple[int, ...]
    borrowed: tuple[int, ...]
    kept: tuple[int, ...]
    preemptions: tuple[int, ...]
    growth: tuple[int, ...] = ()


class TimelineAnswer(Value, frozen=True, kw_only=True):
    """A period by bin. `before`: the last record before it; `sequences`: the last record of each bin.

    `pending`: thousandths of a GPU that waiting jobs asked for; `changes`: number of facts about documents. `through`: how far the books
    reach.
    """

    since: int
    until: int
    through: int
    before: int = 0
    sequences: tuple[int, ...] = ()
    pools: tuple[PoolBins, ...] = ()
    pending: tuple[int, ...] = ()
    changes: tuple[int, ...] = ()
