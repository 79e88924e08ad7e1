"""Queries to *accounting* about the books, and their answers (`queries` has the others, and the envelope of all answers)."""

from __future__ import annotations

from headrace.contracts.values.value import Value


class UsageRequest(Value, frozen=True, kw_only=True):
    """To *accounting* `usage`: the books of `[since, until)` (microseconds; 0 for open ends), grouped by the names in `by`.

    `per`: `hour`, `day` or `month` of clocks in `timezone`; empty: all in one. A large answer is a page of rows: `skip` is the number of
    rows to
    leave out. By `job` the rows are those of some jobs: the others come after the job `after`. A provider's administrator sends *provider*
    `usage` for all tenants.
    """

    since: int = 0
    until: int = 0
    by: tuple[str, ...] = ("group",)
    per: str = ""
    timezone: str = "UTC"
    skip: int = 0
    after: str = ""


class UsageRow(Value, frozen=True, kw_only=True):
    """One row of the books: exact integers of unit-microseconds as text, because they exceed the range of JSON readers.

    `total` is `reserved` and `borrowed`; `lost` is the part of it that was work in no checkpoint when its job had to stop (R25). `idle`:
    reserved and not used by the policy; with `reserved` it is the whole reservation. `suspended`, `waiting` and `kept` (free
    units that were kept for a job that waited, R16, R27) are not charged, and neither is `provider_lost`: what was held from a grant
    until the job ran, or until a start that never came was given up (R36, R37). `cost` and `lost_cost` are decimals with six places, in
    the installation's currency. `jobs`: number of jobs that held something. Of GPUs, by the nodes' samples: `measured` is the part of the
    total in which it is known how much they computed, `busy` the part of that in which they did, and `idle_held` the part in which they
    were nearly unused for ten minutes and longer.
    """

    group: dict[str, str]
    key: str
    total: str
    reserved: str
    borrowed: str
    lost: str = "0"
    jobs: int = 0
    idle: str = "0"
    suspended: str = "0"
    waiting: str = "0"
    cost: str = "0.000000"
    lost_cost: str = "0.000000"
    kept: str = "0"
    provider_lost: str = "0"
    measured: str = "0"
    busy: str = "0"
    idle_held: str = "0"


class UsageAnswer(Value, frozen=True, kw_only=True):
    """The books, up to the ledger sequence `through`, whose time is `now`; `lines` is the number of all rows, `rows` those of this answer.

    `more`: there are other jobs after this one, and `lines` counts the rows of the jobs up to it. `warnings`: budgets that are used up, or
    will
    be before their period ends (R33).
    """

    through: int
    rows: tuple[UsageRow, ...]
    now: int = 0
    lines: int = 0
    currency: str = ""
    warnings: tuple[str, ...] = ()
    more: str = ""


class StatementRequest(Value, frozen=True, kw_only=True):
    """To *accounting* `statement`: the invoice of the asker's tenant for `month` (`2026-11`, of clocks in `timezone`).

    To *provider* `statement`: what instances of pools cost the provider in that month (R38).

    `form`: `json`, `csv`, or `focus` (FOCUS 1.2 as CSV). A long text comes in pieces: `digest` and `offset` ask for the rest of one.
    """

    month: str
    timezone: str = "UTC"
    form: str = "json"
    digest: str = ""
    offset: int = 0


class StatementAnswer(Value, frozen=True, kw_only=True):
    """A piece of the statement, which has `length` characters. `final`: the statement will not change any more."""

    through: int
    text: str
    length: int
    digest: str
    final: bool
