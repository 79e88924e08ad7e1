"""The names on the bus (interfaces page, The bus). The only place where a subject is put together or taken apart."""

from __future__ import annotations

from headrace.contracts.values.ids import IdError, is_job_id, is_token

SUBMIT_STREAM = "SUBMIT"
LEDGER_STREAM = "LEDGER"
FEED_STREAM = "FEED"
SNAPSHOT_BUCKET = "snapshots"
SNAPSHOT_STREAM = f"OBJ_{SNAPSHOT_BUCKET}"
"""The stream of an object store, as NATS names it: whoever knows object stores can look into it."""

WISH_SUBJECTS = ("hr.submit.*.*.*.*", "hr.cancel.*.*.*", "hr.requeue.*.*.*")
"""Subjects of SUBMIT on which users publish."""
SUBMIT_SUBJECTS = (*WISH_SUBJECTS, *(f"{subject}.by.*.*" for subject in WISH_SUBJECTS))
"""The second of each says besides who it was for the user that it names; nobody outside `CORE` reaches those."""

LEDGER_SUBJECTS = ("hr.ledger.*", "hr.ledger.node.*")
FEED_SUBJECTS = ("hr.feed.>",)
SNAPSHOT_SUBJECTS = (f"$O.{SNAPSHOT_BUCKET}.C.>", f"$O.{SNAPSHOT_BUCKET}.M.>")

_MANY = "many"
_INTAKE = "hr.intake."

NODE_WRITER = "node."
"""Writers that are nodes are called `node.<name>` in records; services go by their own name."""


def submit(tenant: str, user: str, policy: str, profile: str) -> str:
    """Where a user publishes a job for a queue."""
    return f"hr.submit.{tenant}.{user}.{policy}.{profile}"


def cancel(tenant: str, user: str, job_id: str) -> str:
    """Where a user publishes the wish that a job ends."""
    return f"hr.cancel.{tenant}.{user}.{job_id}"


def cancel_many(tenant: str, user: str) -> str:
    """Subject on which a user asks to cancel several jobs at once. Its last word cannot be a job id."""
    return f"hr.cancel.{tenant}.{user}.{_MANY}"


def requeue(tenant: str, user: str, job_id: str) -> str:
    """Where a user publishes the wish that a job goes back into line."""
    return f"hr.requeue.{tenant}.{user}.{job_id}"


def by(subject: str, tenant: str, handle: str) -> str:
    """The same wish of `handle`, for the user whom the subject names."""
    return f"{subject}.by.{tenant}.{handle}"


def intake(subject: str) -> str:
    """Where `CORE` receives what a user publishes on a subject of SUBMIT; no stream listens there."""
    return _INTAKE + subject.removeprefix("hr.")


def from_intake(subject: str) -> str:
    """The subject of SUBMIT for one made by `intake`; any other as it is."""
    return f"hr.{subject.removeprefix(_INTAKE)}" if subject.startswith(_INTAKE) else subject


def split_by(subject: str) -> tuple[str, str]:
    """A subject of SUBMIT as its user would have it, and who published for that user, as facts name them; empty: the user."""
    parts = subject.split(".")
    of_the_user = 6 if parts[1:2] == ["submit"] else 5  # parts; somebody may be called `by`
    if len(parts) == of_the_user + 3 and parts[-3] == "by" and is_token(parts[-2]) and is_token(parts[-1]):
        return ".".join(parts[:-3]), f"{parts[-2]}.{parts[-1]}"
    return subject, ""


def parse_submit(subject: str) -> tuple[str, str, str, str]:
    """(tenant, user, policy, profile) of a submit subject; `IdError` where it is none."""
    parts = subject.split(".")
    if len(parts) != 6 or parts[:2] != ["hr", "submit"] or not all(map(is_token, parts[2:])):
        raise IdError(f"{subject!r} is no submit subject; it looks like hr.submit.<tenant>.<user>.<policy>.<profile>")
    return parts[2], parts[3], parts[4], parts[5]


def parse_cancel(subject: str) -> tuple[str, str, str]:
    """(tenant, user, job id) of a cancel subject; `IdError` where it is none."""
    return _parse_of_a_job(subject, "cancel")


def is_cancel_many(subject: str) -> bool:
    """Whether a subject of SUBMIT is one to cancel several jobs."""
    parts = subject.split(".")
    return parts[1:2] == ["cancel"] and parts[4:5] == [_MANY]


def parse_cancel_many(subject: str) -> tuple[str, str]:
    """(tenant, user) of a subject to cancel several jobs; `IdError` where it is none."""
    parts = subject.split(".")
    if (
        len(parts) != 5
        or parts[:2] != ["hr", "cancel"]
        or not (is_token(parts[2]) and is_token(parts[3]) and parts[4] == _MANY)
    ):
        raise IdError(
            f"{subject!r} is not a subject that cancels several jobs; it looks like hr.cancel.<tenant>.<user>.{_MANY}"
        )
    return parts[2], parts[3]


def parse_requeue(subject: str) -> tuple[str, str, str]:
    """(tenant, user, job id) of a requeue subject; `IdError` where it is none."""
    return _parse_of_a_job(subject, "requeue")


def _parse_of_a_job(subject: str, verb: str) -> tuple[str, str, str]:
    parts = subject.split(".")
    if len(parts) != 5 or parts[:2] != ["hr", verb] or not (is_token(parts[2]) and is_token(parts[3]) and is_job_id(parts[4])):
        raise IdError(f"{subject!r} is no {verb} subject; it looks like hr.{verb}.<tenant>.<user>.<job id>")
    return parts[2], parts[3], parts[4]


def asker_of(subject: str) -> tuple[str, str]:
    """(tenant, user) of whoever published on a subject of SUBMIT, well-formed or not; empty where it names nobody."""
    parts = subject.split(".")
    tenant, user = (parts[2], parts[3]) if len(parts) > 3 else ("", "")
    return (tenant, user) if is_token(tenant) and is_token(user) else ("", "")


def awaits_answer(reply: str) -> bool:
    """Whether a reply subject is one at which a client waits, in another account (`_R_`) or in the same one (`_INBOX`).

    Services answer nowhere else, so that a question cannot direct its answer to the subjects of a stream.
    """
    return reply.startswith(("_R_.", "_INBOX"))


def turn(service: str) -> str:
    """Where the instance of a service that decides says that it does, for those that wait."""
    return f"hr.turn.{service}"


def presence(service: str) -> str:
    """Where every instance of a service says that it is there, and which level it reads."""
    return f"hr.presence.{service}"


def ledger(writer: str) -> str:
    """Where `writer` (`allocator`, `node.gpu01`) appends its records."""
    return f"hr.ledger.{writer}"


def ledger_writer(subject: str) -> str:
    """The writer whose subject this is; `IdError` where it is no ledger subject."""
    writer = subject.removeprefix("hr.ledger.")
    if writer == subject or not is_token(writer.removeprefix(NODE_WRITER)):
        raise IdError(f"{subject!r} is no ledger subject; it looks like hr.ledger.<service> or hr.ledger.node.<node>")
    return writer


def node_writer(node: str) -> str:
    """What a node is called in its records: `node.<name>`."""
    return NODE_WRITER + node


def feed(tenant: str, noun: str, verb: str, name: str) -> str:
    """Where one derived fact for outsiders is published."""
    return f"hr.feed.{tenant}.{noun}.{verb}.{name}"


def orders(node: str) -> str:
    """Where a node hears what it is to do now."""
    return f"hr.orders.{node}"


def node_logs(node: str) -> str:
    """Where a node answers requests for the output of its jobs."""
    return f"hr.logs.{node}"


def telemetry(node: str, kind: str) -> str:
    """Where a node publishes heartbeats and samples, kept by nobody."""
    return f"hr.telemetry.{node}.{kind}"


def query(service: str, what: str, tenant: str, user: str) -> str:
    """Where a user asks a service; the asker is read from the subject only."""
    return f"hr.query.{service}.{what}.{tenant}.{user}"


def node_query(node: str) -> str:
    """Where a node asks the feed for all it should be running."""
    return f"hr.query.orders.node.{node}"


def parse_query(subject: str) -> tuple[str, str, str, str]:
    """(service, what, tenant, user) of a query subject; `IdError` where it is none."""
    parts = subject.split(".")
    if len(parts) != 6 or parts[:2] != ["hr", "query"] or not all(map(is_token, parts[2:])):
        raise IdError(f"{subject!r} is no query subject; it looks like hr.query.<service>.<what>.<tenant>.<user>")
    return parts[2], parts[3], parts[4], parts[5]
