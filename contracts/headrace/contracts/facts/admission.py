"""Facts of *admission*: each message on SUBMIT is judged, in order, exactly once (R13, R14)."""

from __future__ import annotations

from headrace.contracts.facts.fact import Fact
from headrace.contracts.values.arrays import ArrayRange
from headrace.contracts.values.gpu_memory import ModelShare
from headrace.contracts.values.value import Value


class Dependency(Value, frozen=True, kw_only=True):
    """Another job that has to end first: `when` is `ok` (succeeded) or `any`."""

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
    """The job was admitted and is pending; from now on only the allocator changes its state.

    `job` is the job key. `request` is the amounts of one replica; with `mig` it takes one slice of that name, and `gpu` is the slice's
    charge
    (R4). `replicas` start together (R2). `text` is the sealed `JobText`, base64; `digest` identifies the submitted content, so that the
    same id
    with other content is detected (R14). `trace` is the W3C traceparent of the submit. `submitted_by`: who submitted for the user in the
    key, a
    service account or an administrator (`acme.ci`); empty: that user. `on_behalf_of` occurs in older records only: the user for whom the
    service account in the key submitted.
    `rules`: what the runtime rules of the group gave the job, one line each, secrets by name and reference only. `contained`: the job has
    an
    image, and therefore needs a node that runs containers. Durations in microseconds. `array`, from level 3 on: it is not one job but as
    many as
    there are indices; `job` is the key of all of them together. `gpu_memory`, from level 3 on: what each replica gets of it, in MiB; 0: the
    job asks for GPUs. `shares` are then what that is of each GPU model that it may be given, the one tried first at the front; `gpu` and
    `mig` are those of the first (R42). `by_model`, from level 3 on: of whichever of them it is given, the model's own key is charged too
    (R43).
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
    array: ArrayRange | None = None
    gpu_memory: int = 0
    shares: tuple[ModelShare, ...] = ()
    by_model: bool = False


class JobRejectedV1(Fact, frozen=True, kw_only=True, tag="job.rejected.v1"):
    """The job was rejected. `reason` is a `RejectReason`; `message` has the numbers and the way out.

    `submitted_by` as in `job.admitted`; `on_behalf_of`: the intended user, if that is why the job was rejected. `request`: the amounts
    asked for
    one replica, empty for all of the profile, together with `preemptible` and `contained`; None if the job was rejected before these were
    checked.
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
    """A message on SUBMIT that names no job: its payload or its subject is malformed."""

    wish: int
    subject: str
    reason: str
    message: str


class JobCancelRequestedV1(Fact, frozen=True, kw_only=True, tag="job.cancel_requested.v1"):
    """The owner of the job, or a user who may act for the owner, asked to end it.

    `elements`: of an array, the ranges of indices that are meant; empty: all.
    """

    job: str
    by: str
    reason: str = ""
    elements: tuple[tuple[int, int], ...] = ()


class JobRequeueRequestedV1(Fact, frozen=True, kw_only=True, tag="job.requeue_requested.v1"):
    """The owner asked that the job releases the resources of this attempt and waits again (R29).

    Of an array: that its elements that hold resources do; `attempt` is 0, `elements` as in `job.cancel_requested`.
    """

    job: str
    attempt: int
    by: str
    reason: str = ""
    elements: tuple[tuple[int, int], ...] = ()


class RefusalsCountedV1(Fact, frozen=True, kw_only=True, tag="refusals.counted.v1"):
    """Number of refusals of one kind within a second: a flood is one fact, not one fact each (R14)."""

    tenant: str
    user: str
    reason: str
    count: int


class WishesJudgedV1(Fact, frozen=True, kw_only=True, tag="wishes.judged.v1"):
    """Every message on SUBMIT up to `through` has been judged: the position of admission, written together with its effect."""

    through: int
