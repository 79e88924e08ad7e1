"""What a user publishes: submissions, cancels and requeues, not yet judged (stream SUBMIT). Bytes from outside; `codec` decodes them.

A message on `hr.submit.<tenant>.<user>.<policy>.<profile>` is one `JobSubmission`, or `{"jobs": [...]}` with up to 1,000 of
them. A message on `hr.cancel.<tenant>.<user>.<job_id>` is a `CancelRequest`, on `hr.requeue.<tenant>.<user>.<job_id>` a `RequeueRequest`;
`{}` is enough. A message on `hr.cancel.<tenant>.<user>.many` is a `CancelManyRequest`. Tenant, user and queue are read from the subject
only, because NATS checks only the subject.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from headrace.contracts.documents.model import Mount

SUBMISSION_BYTES_MAX = 1024 * 1024
"""Maximum bytes of a message on `hr.submit.…`."""
JOBS_MAX = 1_000
CANCELS_MAX = 900
"""Maximum number of jobs that one message may cancel: their facts fit in one record, so that the allocator decides nothing in between."""
COMMAND_MAX = 256
TEXT_MAX = 64 * 1024
PRIORITY_MAX = 1_000_000
RETRIES_MAX = 1_000


class After(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Start only after another job of the same user has ended: `when` is `ok` (succeeded) or `any`."""

    job: str
    when: str = "ok"


class JobSubmission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One job as submitted.

    `id` is a lower-case ULID (R14). `request` may lower the profile's amounts, written as in documents (`gpu: "0.25"`).
    `time_limit` is a duration such as `1h30m`. `on_abort` is a command that runs when the job has to stop (R28).
    `secret_env` names variables whose values the node finds by reference; the values are not sent. `on_behalf_of`: the member of the
    queue's
    group for whom a service account submits, if the group allows it (`on_behalf`): the job belongs to that member, and both names are
    recorded. `trace` is a W3C traceparent. `array`: submit not one job but an array of them, such as `0-499%8`: 500, at most 8 at once.
    """

    id: str
    command: tuple[str, ...]
    name: str = ""
    env: dict[str, str] = {}
    secret_env: tuple[str, ...] = ()
    image: str = ""
    workdir: str = ""
    preemptible: bool = True
    priority: Annotated[int, msgspec.Meta(ge=-PRIORITY_MAX, le=PRIORITY_MAX)] = 0
    on_abort: tuple[str, ...] = ()
    retries: Annotated[int, msgspec.Meta(ge=0, le=RETRIES_MAX)] = 0
    time_limit: str = ""
    after: tuple[After, ...] = ()
    request: dict[str, str | int | float] = {}
    labels: dict[str, str] = {}
    trace: str = ""
    on_behalf_of: str = ""
    array: str = ""


class JobSubmissions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Up to 1,000 jobs for one queue in one message."""

    jobs: tuple[JobSubmission, ...]


class CancelRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request to end a job; it comes after the job's submit. `on_behalf_of`: the owner of the job, for whom a service account acts.

    `elements`: of an array, the indices that are meant, such as `0-9,20`; empty: all.
    """

    reason: str = ""
    on_behalf_of: str = ""
    elements: str = ""


class CancelManyRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request to end several jobs of one user, by their ids, at most `CANCELS_MAX`; otherwise as `CancelRequest`.

    Pending jobs end first, and none of them starts meanwhile. Jobs that have ended already are skipped.
    """

    jobs: tuple[str, ...]
    reason: str = ""
    on_behalf_of: str = ""


class RequeueRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A request that a running or suspended job releases its resources and waits again (R29). `on_behalf_of` as in `CancelRequest`.

    Of an array it is about the elements that hold resources; `elements` as in `CancelRequest`.
    """

    reason: str = ""
    on_behalf_of: str = ""
    elements: str = ""


class JobText(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What only the job's node has to read; sealed in the record under a key of the tenant.

    `secrets`: variable to reference, for those of `secret_env` that the group's rules name.
    """

    command: tuple[str, ...]
    env: dict[str, str] = {}
    secret_env: tuple[str, ...] = ()
    image: str = ""
    workdir: str = ""
    on_abort: tuple[str, ...] = ()
    secrets: dict[str, str] = {}
    mounts: tuple[Mount, ...] = ()
