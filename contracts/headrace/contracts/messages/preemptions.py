"""Questions to *accounting* about preemptions, and their answers."""

from __future__ import annotations

from headrace.contracts.values.value import Value


class PreemptionsRequest(Value, frozen=True, kw_only=True):
    """To *accounting* `preemptions`: those that concern the asker's tenant, the latest first; to *provider* `preemptions`: all.

    `ordered`, `place`: one preemption, by the fact that ordered it, with each step; 0: a page of all those ordered before the fact
    `before` (sequence, place), or the latest. `since`, `until`: log time of the order, microseconds. `job`: an id, as preemptor or victim.
    """

    ordered: int = 0
    place: int = 0
    before: tuple[int, int] = (0, 0)
    since: int = 0
    until: int = 0
    job: str = ""
    limit: int = 100


class PreemptionJobView(Value, frozen=True, kw_only=True):
    """A job of a preemption; all empty for a job of another tenant."""

    job: str = ""
    name: str = ""
    user: str = ""
    queue: str = ""


class AttemptView(Value, frozen=True, kw_only=True):
    """One attempt. Times in microseconds since 1970; None: not yet."""

    attempt: int
    pool: str
    nodes: tuple[str, ...]
    granted_at: int
    started_at: int | None = None
    ended_at: int | None = None
    resume_from: str = ""
    checkpoint: str = ""
    checkpoint_at: int | None = None


class StepView(Value, frozen=True, kw_only=True):
    """A rung that a node took to stop a replica (R28): when it ended, and how many microseconds it took."""

    rank: int
    rung: str
    at: int
    took: int
    result: str


class VictimView(Value, frozen=True, kw_only=True):
    """A job that had to stop. `expected`: GPU-seconds to lose at the time of the search; `lost`: unit-microseconds lost in the end."""

    job: PreemptionJobView
    expected: int
    lost: str
    attempt: AttemptView | None = None
    steps: tuple[StepView, ...] = ()
    next: AttemptView | None = None


class PreemptionView(Value, frozen=True, kw_only=True):
    """A preemption that was ordered by the fact `ordered`.`place`. `others`: number of victims that belong to other tenants.

    `to_signal`, `grace`, `to_release`: microseconds; `lost`: whole GPU-seconds, as stated; None until all victims have stopped.
    `places`: (rank, node, devices). `started`: the attempt of the preemptor after the order.
    """

    ordered: int
    place: int
    preemptor: PreemptionJobView
    pool: str
    cause: str
    rule: str
    ordered_at: int
    settled_at: int | None = None
    to_signal: int | None = None
    grace: int | None = None
    to_release: int | None = None
    lost: int | None = None
    unused: str = ""
    places: tuple[tuple[int, str, tuple[str, ...]], ...] = ()
    victims: tuple[VictimView, ...] = ()
    others: int = 0
    started: AttemptView | None = None


class PreemptionsAnswer(Value, frozen=True, kw_only=True):
    """A page of preemptions; `more`: earlier ones follow."""

    through: int
    preemptions: tuple[PreemptionView, ...] = ()
    more: bool = False
