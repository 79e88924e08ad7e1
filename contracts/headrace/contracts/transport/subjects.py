"""The NATS subjects (docs/interfaces.md). The only place where a subject is built or parsed."""

from __future__ import annotations

from headrace.contracts.values.ids import NODE_WRITER, IdError, is_job_id, is_token

SUBMIT_STREAM = "SUBMIT"
LEDGER_STREAM = "LEDGER"
FEED_STREAM = "FEED"
SNAPSHOT_BUCKET = "snapshots"
SNAPSHOT_STREAM = f"OBJ_{SNAPSHOT_BUCKET}"
"""The stream of an object store, as NATS names it, so that its tools can read it."""

REQUEST_SUBJECTS = ("hr.submit.*.*.*.*", "hr.cancel.*.*.*", "hr.requeue.*.*.*")
"""Subjects of SUBMIT on which users publish."""
SUBMIT_SUBJECTS = (*REQUEST_SUBJECTS, *(f"{subject}.by.*.*" for subject in REQUEST_SUBJECTS))
"""The second form names in addition the service account that acted for the user; only account `CORE` may publish on it."""

LEDGER_SUBJECTS = ("hr.ledger.*", "hr.ledger.node.*")
FEED_SUBJECTS = ("hr.feed.>",)
SNAPSHOT_SUBJECTS = (f"$O.{SNAPSHOT_BUCKET}.C.>", f"$O.{SNAPSHOT_BUCKET}.M.>")

_MANY = "many"
_INTAKE = "hr.intake."


def submit(tenant: str, user: str, policy: str, profile: str) -> str:
    """The subject on which a user submits jobs to a queue."""
    return f"hr.submit.{tenant}.{user}.{policy}.{profile}"


def cancel(tenant: str, user: str, job_id: str) -> str:
    """The subject on which a user asks to cancel a job."""
    return f"hr.cancel.{tenant}.{user}.{job_id}"


def cancel_many(tenant: str, user: str) -> str:
    """Subject on which a user asks to cancel several jobs at once. Its last word cannot be a job id."""
    return f"hr.cancel.{tenant}.{user}.{_MANY}"


def requeue(tenant: str, user: str, job_id: str) -> str:
    """The subject on which a user asks to requeue a job."""
    return f"hr.requeue.{tenant}.{user}.{job_id}"


def by(subject: str, tenant: str, handle: str) -> str:
    """The subject of the same request by `handle`, for the user in the subject."""
    return f"{subject}.by.{tenant}.{handle}"


def intake(subject: str) -> str:
    """The subject on which `CORE` receives what a user publishes on a subject of SUBMIT; not part of a stream."""
    return _INTAKE + subject.removeprefix("hr.")


def from_intake(subject: str) -> str:
    """The subject of SUBMIT for one made by `intake`; any other subject unchanged."""
    return f"hr.{subject.removeprefix(_INTAKE)}" if subject.startswith(_INTAKE) else subject


def split_by(subject: str) -> tuple[str, str]:
    """A subject of SUBMIT without its `by` part, and who published for the user, as facts name them; empty: the user."""
    parts = subject.split(".")
    of_the_user = 6 if parts[1:2] == ["submit"] else 5  # number of parts; a user may be called `by`
    if len(parts) == of_the_user + 3 and parts[-3] == "by" and is_token(parts[-2]) and is_token(parts[-1]):
        return ".".join(parts[:-3]), f"{parts[-2]}.{parts[-1]}"
    return subject, ""


def parse_submit(subject: str) -> tuple[str, str, str, str]:
    """(tenant, user, policy, profile) of a submit subject. Raises IdError if malformed."""
    parts = subject.split(".")
    if len(parts) != 6 or parts[:2] != ["hr", "submit"] or not all(map(is_token, parts[2:])):
        raise IdError(f"invalid submit subject {subject!r}: use hr.submit.<tenant>.<user>.<policy>.<profile>")
    return parts[2], parts[3], parts[4], parts[5]


def parse_cancel(subject: str) -> tuple[str, str, str]:
    """(tenant, user, job id) of a cancel subject. Raises IdError if malformed."""
    return _parse_of_a_job(subject, "cancel")


def is_cancel_many(subject: str) -> bool:
    """True for a subject that cancels several jobs."""
    parts = subject.split(".")
    return parts[1:2] == ["cancel"] and parts[4:5] == [_MANY]


def parse_cancel_many(subject: str) -> tuple[str, str]:
    """(tenant, user) of a subject that cancels several jobs. Raises IdError if malformed."""
    parts = subject.split(".")
    if (
        len(parts) != 5
        or parts[:2] != ["hr", "cancel"]
        or not (is_token(parts[2]) and is_token(parts[3]) and parts[4] == _MANY)
    ):
        raise IdError(f"invalid subject {subject!r} to cancel several jobs: use hr.cancel.<tenant>.<user>.{_MANY}")
    return parts[2], parts[3]


def parse_requeue(subject: str) -> tuple[str, str, str]:
    """(tenant, user, job id) of a requeue subject. Raises IdError if malformed."""
    return _parse_of_a_job(subject, "requeue")


def _parse_of_a_job(subject: str, verb: str) -> tuple[str, str, str]:
    parts = subject.split(".")
    if len(parts) != 5 or parts[:2] != ["hr", verb] or not (is_token(parts[2]) and is_token(parts[3]) and is_job_id(parts[4])):
        raise IdError(f"invalid {verb} subject {subject!r}: use hr.{verb}.<tenant>.<user>.<job id>")
    return parts[2], parts[3], parts[4]


def asker_of(subject: str) -> tuple[str, str]:
    """(tenant, user) of the publisher on a subject of SUBMIT, malformed or not; empty strings if the subject does not name them."""
    parts = subject.split(".")
    tenant, user = (parts[2], parts[3]) if len(parts) > 3 else ("", "")
    return (tenant, user) if is_token(tenant) and is_token(user) else ("", "")


def awaits_answer(reply: str) -> bool:
    """True if a client waits at a reply subject, in another account (`_R_`) or in the same one (`_INBOX`).

    Services answer on these only, so that a request cannot direct its answer into a stream.
    """
    return reply.startswith(("_R_.", "_INBOX"))


def turn(service: str) -> str:
    """The subject on which the leading instance of a service announces itself to those that wait."""
    return f"hr.turn.{service}"


def presence(service: str) -> str:
    """The subject on which every instance of a service announces itself and the level that it reads."""
    return f"hr.presence.{service}"


def ledger(writer: str) -> str:
    """The subject on which `writer` (`allocator`, `node.gpu01`) appends its records."""
    return f"hr.ledger.{writer}"


def ledger_writer(subject: str) -> str:
    """The writer whose subject this is. Raises IdError if it is not a ledger subject."""
    writer = subject.removeprefix("hr.ledger.")
    if writer == subject or not is_token(writer.removeprefix(NODE_WRITER)):
        raise IdError(f"invalid ledger subject {subject!r}: use hr.ledger.<service> or hr.ledger.node.<node>")
    return writer


def node_writer(node: str) -> str:
    """The name of a node as a writer of records: `node.<name>`."""
    return NODE_WRITER + node


def feed(tenant: str, noun: str, verb: str, name: str) -> str:
    """The subject of one derived fact for outsiders."""
    return f"hr.feed.{tenant}.{noun}.{verb}.{name}"


def orders(node: str) -> str:
    """The subject on which a node receives orders."""
    return f"hr.orders.{node}"


def node_logs(node: str) -> str:
    """The subject on which a node answers requests for the output of its jobs."""
    return f"hr.logs.{node}"


def telemetry(node: str, kind: str) -> str:
    """The subject of a node's heartbeats and samples, which are not stored."""
    return f"hr.telemetry.{node}.{kind}"


def query(service: str, what: str, tenant: str, user: str) -> str:
    """The subject of a user's request to a service; the service reads the user from the subject only."""
    return f"hr.query.{service}.{what}.{tenant}.{user}"


def node_query(node: str) -> str:
    """The subject on which a node asks the feed for all that it should run."""
    return f"hr.query.orders.node.{node}"


def join_query(instance: str) -> str:
    """The subject on which an instance exchanges its one-time code for its node's token."""
    return query("governance", "join", "instances", instance)


def parse_query(subject: str) -> tuple[str, str, str, str]:
    """(service, what, tenant, user) of a query subject. Raises IdError if malformed."""
    parts = subject.split(".")
    if len(parts) != 6 or parts[:2] != ["hr", "query"] or not all(map(is_token, parts[2:])):
        raise IdError(f"invalid query subject {subject!r}: use hr.query.<service>.<what>.<tenant>.<user>")
    return parts[2], parts[3], parts[4], parts[5]
