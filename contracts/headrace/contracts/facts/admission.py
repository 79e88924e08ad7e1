"""Facts of *admission*: each wish on SUBMIT was judged, in order, exactly once (R13, R14)."""

from __future__ import annotations

from headrace.contracts.facts.fact import Fact, Value


class Dependency(Value, frozen=True, kw_only=True):
    """Another job that has to have ended first: `when` is `ok` (succeeded) or `any`."""

    job: str
    when: str = "ok"


class AccountNumberedV1(Fact, frozen=True, kw_only=True, tag="account.numbered.v1"):
    """Account number (Unix uid and gid) of a user on every node, from the user's first job on. Never given to another user.

    Stated from level 2 on, in the record that admits that job (`contracts.values.account_numbers` has the range).
    """

    tenant: str
    user: str
    number: int


class JobAdmittedV1(Fact, frozen=True, kw_only=True, tag="job.admitted.v1"):
    """The job may run some day; from now on only the allocator moves it.

    `job` is the job key. `request` is what one replica takes, with `mig` one slice of that name, for which `gpu` is the charge (R4);
    `replicas` start together (R2). `text` is the sealed
    `JobText`, base64; `digest` names the content of the wish, so that the same id with other content is noticed (R14).
    `trace` is the W3C traceparent of the submit. `submitted_by`: who submitted for the user in the key, a service account or an
    administrator (`acme.ci`); empty: that user. `on_behalf_of` stands in older records only: the user for whom the service account in
    the key submitted.
    `rules`: what the runtime rules of the group gave the job, a line each, secrets by name and reference only. `contained`: it has an
    image, and so only goes where containers run. Spans in microseconds.
    """

    job: str
    policy: str
    profile: str
    request: dict[str, int]
    mig: str = ""
    replicas: int = 1
    preemptible: bool = True
    priority: int = 0
    max_retries: int = 0
    time_limit: int | None = None
    after: tuple[Dependency, ...] = ()
    name: str = ""
    labels: dict[str, str] = {}
    digest: str = ""
    text: str = ""
    trace: str = ""
    on_behalf_of: str = ""
    submitted_by: str = ""
    rules: tuple[str, ...] = ()
    contained: bool = False


class JobRejectedV1(Fact, frozen=True, kw_only=True, tag="job.rejected.v1"):
    """The job can never run, or not now in such numbers. `reason` is a `RejectReason`; `message` has the numbers and the way out.

    `submitted_by` as in `job.admitted`; `on_behalf_of`: for whom it was meant, where that is why it was turned away. `request`: what was
    asked of the profile for one replica, empty for all that it gives, and with it `preemptible` and `contained`; none where it was turned
    away before anybody looked at that.
    """

    job: str
    policy: str
    profile: str
    reason: str
    message: str
    name: str = ""
    digest: str = ""
    retry_after: int | None = None
    submitted_by: str = ""
    on_behalf_of: str = ""
    request: dict[str, int] | None = None
    preemptible: bool = True
    contained: bool = False


class WishRefusedV1(Fact, frozen=True, kw_only=True, tag="wish.refused.v1"):
    """A message on SUBMIT that names no job: it could not be read, or its subject is none."""

    wish: int
    subject: str
    reason: str
    message: str


class JobCancelRequestedV1(Fact, frozen=True, kw_only=True, tag="job.cancel_requested.v1"):
    """Its owner, or who may speak for them, wants the job to end."""

    job: str
    by: str
    reason: str = ""


class JobRequeueRequestedV1(Fact, frozen=True, kw_only=True, tag="job.requeue_requested.v1"):
    """The owner wants the job to leave where this attempt of it is, and to wait again (R29)."""

    job: str
    attempt: int
    by: str
    reason: str = ""


class RefusalsCountedV1(Fact, frozen=True, kw_only=True, tag="refusals.counted.v1"):
    """So many refusals of one kind within a second: a flood is one fact, not one each (R14)."""

    tenant: str
    user: str
    reason: str
    count: int


class WishesJudgedV1(Fact, frozen=True, kw_only=True, tag="wishes.judged.v1"):
    """Every wish on SUBMIT up to `through` has been judged: admission's position, written with its effect."""

    through: int
