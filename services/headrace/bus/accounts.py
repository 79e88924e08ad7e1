"""The configuration of the NATS server: who may say what where (interfaces page, Accounts).

Strategy: a server sends a stream's acknowledgement, and a service's answer, to whatever reply subject the publisher named, and
asks nobody whether the publisher may write there. So outsiders live in accounts of their own: `USERS` and `NODES` reach `CORE`,
where the streams are, only through the subjects imported here. An answer to an outsider goes back into the outsider's account,
where no stream listens; whatever reply subject is named, nothing is written in `CORE`. (It may still be delivered to another
user who listens there, so whoever receives orders or feed facts believes only what decodes as one and names itself.)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from headrace.bus.clusters import CLUSTER, Routes, clustered
from headrace.contracts.codec import MESSAGE_BYTES_MAX
from headrace.contracts.ids import is_token
from headrace.contracts.subjects import (
    FEED_STREAM,
    LEDGER_STREAM,
    SNAPSHOT_STREAM,
    SNAPSHOT_SUBJECTS,
    SUBMIT_STREAM,
    presence,
    turn,
)
from headrace.contracts.tokens import inbox_prefix

HEADER_ROOM = 16 * 1024
MAX_CONNECTIONS = 16_384
LOOPBACK = "127.0.0.1"

USER_SUBSCRIPTIONS = 256
"""So many at once on one connection of a user or a node."""
USER_CONNECTIONS = 4_096
"""So many in `USERS`, and in `NODES`, at once."""

Kind = Literal["operator", "service", "callout", "system", "user", "admin", "viewer", "node"]


class Credential(NamedTuple):
    """One login, and by its `kind` what it may do.

    `operator`: everything in `CORE` (makes the streams, repairs). `service`: what `SERVICES` says for its name. `callout` answers who may
    connect, and `system` disconnects who may no more. `user`: submits, cancels, requeues and asks as `tenant`.`user`, and hears its
    tenant's feed. `admin`: the same as any user of any tenant (the owner of a laptop); `viewer` looks at all of them. `node`: speaks for
    `node`. Names are tokens and unique; passwords are printable ASCII.
    """

    name: str
    password: str
    kind: Kind
    tenant: str = ""
    user: str = ""
    node: str = ""


class Rights(NamedTuple):
    """What one login may publish and hear. `answers`: it may answer what it hears, once each."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    answers: bool = False


def _reads(stream: str) -> tuple[str, ...]:
    """What reading a stream takes: look at it, have it delivered, say that one keeps up."""
    return (
        f"$JS.API.STREAM.INFO.{stream}",
        f"$JS.API.STREAM.MSG.GET.{stream}",
        f"$JS.API.DIRECT.GET.{stream}",
        f"$JS.API.CONSUMER.CREATE.{stream}.*",
        f"$JS.FC.{stream}.>",
    )


_ANSWERS = ("_R_.>",)
"""Where answers to questions from other accounts go; the server makes these subjects up for one answer each."""

_FOLDS = (*_reads(LEDGER_STREAM), *_reads(SNAPSHOT_STREAM))
"""What folding takes: a snapshot to begin with, and the ledger."""

SERVICES: dict[str, Rights] = {
    "admission": Rights(
        (
            "hr.ledger.admission",
            *_FOLDS,
            *_reads(SUBMIT_STREAM),
            f"$JS.API.STREAM.PURGE.{SUBMIT_STREAM}",
            *(*_ANSWERS, "_INBOX_governance.>"),
        ),
        ("hr.query.admission.>",),
    ),
    "allocator": Rights(
        ("hr.ledger.allocator", turn("allocator"), *_FOLDS, *_ANSWERS),
        ("hr.query.allocator.>", "hr.query.allocator-standby.>", turn("allocator")),
    ),
    "preemption": Rights(
        ("hr.ledger.preemption", turn("preemption"), *_FOLDS, *_ANSWERS),
        ("hr.query.preemption.>", "hr.query.preemption-standby.>", "hr.telemetry.>", turn("preemption")),
    ),
    "governance": Rights(
        (
            *("hr.ledger.governance", "hr.submit.>", "hr.cancel.>", "hr.requeue.>"),
            *("hr.query.accounting.usage.*.*", "hr.query.admission.judge.*.*", "hr.query.admission.status.*.*", "hr.logs.*"),
            "hr.query.callout.pause.*.*",
            *_FOLDS,
            *(*_ANSWERS, "_INBOX_callout.>"),
        ),
        ("hr.query.governance.>", "hr.feed.>", "hr.telemetry.*.heartbeat", presence("*")),
    ),
    "feed": Rights(
        ("hr.feed.>", "hr.orders.*", "hr.logs.*", turn("feed"), *_FOLDS, *_reads(FEED_STREAM), *_ANSWERS),
        ("hr.query.feed.>", "hr.query.feed-standby.>", "hr.query.orders.node.*", "hr.telemetry.>", turn("feed")),
    ),
    "accounting": Rights((*_FOLDS, *_ANSWERS, "_INBOX_governance.>"), ("hr.query.accounting.>", "hr.query.provider.>")),
    "audit": Rights(
        ("hr.ledger.audit", *SNAPSHOT_SUBJECTS, f"$JS.API.STREAM.PURGE.{SNAPSHOT_STREAM}", *_FOLDS, *_ANSWERS),
        ("hr.query.audit.>",),
    ),
}
"""The services of `CORE`: each writes the ledger in its own name only, and reads the streams it folds."""

CALLOUT_USER = "callout"
"""Whom the server asks who may connect."""

CALLOUT = Rights(
    (
        *(f"$JS.API.STREAM.INFO.{LEDGER_STREAM}", f"$JS.API.STREAM.MSG.GET.{LEDGER_STREAM}"),
        *("hr.query.governance.claim.*.*", presence(CALLOUT_USER), *_ANSWERS),
    ),
    ("$SYS.REQ.USER.AUTH", "hr.ledger.governance", "hr.query.callout.>"),
    answers=True,
)
"""Who answers whether somebody may connect: hears that question, reads what governance has written, asks it to write down what a
provider's token claims, and writes nothing."""

SYSTEM = Rights((*(f"$SYS.REQ.SERVER.PING.{what}" for what in ("CONNZ", "VARZ", "JSZ")), "$SYS.REQ.SERVER.*.KICK"), ())
"""In the servers' own account: sees how they are and who is connected, and ends a connection."""

_FROM_USERS = ("hr.submit.*.*.*.*", "hr.cancel.*.*.*", "hr.requeue.*.*.*", "hr.query.*.*.*.*")
_FROM_NODES = ("hr.ledger.node.*", "hr.telemetry.*.*", "hr.query.orders.node.*")
_VIEWS = tuple(f"feed.{what}" for what in ("jobs", "job", "why", "facts", "queues", "pools", "nodes", "state", "diff"))
_BOOKS = tuple(f"accounting.{what}" for what in ("usage", "statement", "audit"))
_ASKED_BY_USERS = (*_VIEWS, "feed.logs", *_BOOKS, "*.liveness")
"""What a user may ask, as that user; to write documents (governance) takes an administrator. `status` counts the jobs of all tenants, so
users ask `liveness` instead."""
_SEEN_BY_VIEWERS = (*_VIEWS, *_BOOKS, "*.status", "*.liveness")
"""What who looks at all tenants may ask, as any of them."""
_TO_USERS = ("hr.feed.>",)
_TO_NODES = ("hr.orders.*",)
_OF_NODES = ("hr.logs.*",)


def rights(credential: Credential) -> Rights:
    """What this login may do, its own inbox included: a bearer's, where the password is a token."""
    inbox = f"{inbox_prefix(credential.name, credential.password)}.>"
    tenant, user, node = credential.tenant, credential.user, credential.node
    match credential.kind:
        case "operator":
            return Rights((">",), (">",))
        case "service":
            base = SERVICES[credential.name]
            base = base._replace(publish=(*base.publish, presence(credential.name)))
        case "callout":
            base = CALLOUT
        case "system":
            base = SYSTEM
        case "user":
            own = f"{tenant}.{user}"
            asks = tuple(f"hr.query.{what}.{own}" for what in _ASKED_BY_USERS)
            base = Rights((f"hr.submit.{own}.>", f"hr.cancel.{own}.>", f"hr.requeue.{own}.>", *asks), (f"hr.feed.{tenant}.>",))
        case "admin":
            base = Rights(("hr.submit.>", "hr.cancel.>", "hr.requeue.>", "hr.query.>"), ("hr.feed.>",))
        case "viewer":
            base = Rights(tuple(f"hr.query.{what}.*.*" for what in _SEEN_BY_VIEWERS), ("hr.feed.>",))
        case "node":
            base = Rights(
                (f"hr.ledger.node.{node}", f"hr.telemetry.{node}.>", f"hr.query.orders.node.{node}"),
                (f"hr.orders.{node}", f"hr.logs.{node}"),
                answers=True,
            )
    return base._replace(subscribe=(*base.subscribe, inbox))


def server_config(
    credentials: Iterable[Credential],
    store: Path,
    *,
    host: str = LOOPBACK,
    port: int = 4222,
    ports_file_dir: Path | None = None,
    server_name: str = CLUSTER,
    issuer: str = "",
    tls: tuple[str, str] | None = None,
    cluster: Routes | None = None,
) -> str:
    """The text of the server's configuration file; it holds the passwords, so it is to be written 0600.

    `port` -1: a free one, which the server writes into a file in `ports_file_dir`. `issuer`: the public key in whose name it is answered
    who else may connect; without one, nobody else may. `tls`: the files of a certificate and its key. `cluster`: the others. Raises
    `ValueError` for a login that names no proper tenant, user, node or service.
    """
    logins = tuple(credentials)
    for login in logins:
        _check(login)
    twice = [name for name, times in Counter(login.name for login in logins).items() if times > 1]
    if twice:
        raise ValueError(f"two logins are called {twice[0]!r}")
    lines = [
        f"server_name: {_quoted(server_name)}",
        f"listen: {_quoted(f'{host}:{port}')}",
        *([f"ports_file_dir: {_quoted(str(ports_file_dir))}"] if ports_file_dir else []),
        f"max_payload: {MESSAGE_BYTES_MAX + HEADER_ROOM}",
        f"max_connections: {MAX_CONNECTIONS}",
        f"jetstream {{ store_dir: {_quoted(str(store))}, sync_interval: always }}",
        *([f"tls {{cert_file: {_quoted(tls[0])}, key_file: {_quoted(tls[1])}, timeout: 5}}"] if tls else []),
        *_callout(issuer, logins),
        *_accounts(logins),
        *(clustered(cluster) if cluster is not None else ()),
    ]
    return "\n".join(lines) + "\n"


def _check(login: Credential) -> None:
    names = {"name": login.name}
    if login.kind == "user":
        names |= {"tenant": login.tenant, "user": login.user}
    elif login.kind == "node":
        names["node"] = login.node
    elif login.kind == "service" and login.name not in SERVICES:
        raise ValueError(f"{login.name!r} is no service; there are {', '.join(sorted(SERVICES))}")
    for what, name in names.items():
        if not is_token(name):
            raise ValueError(f"the {what} {name!r} of a login has to be 1 to 63 of a-z, 0-9 and '-'")
    if not (login.password.isascii() and login.password.isprintable()) or login.password[:1] in {"", "$"}:
        raise ValueError(f"the password of {login.name} has to be printable ASCII, not empty, and not begin with '$'")


def _accounts(logins: Sequence[Credential]) -> list[str]:
    core = [login for login in logins if login.kind in {"operator", "service", "callout"}]
    users = [login for login in logins if login.kind in {"user", "admin", "viewer"}]
    nodes = [login for login in logins if login.kind == "node"]
    return [
        "accounts {",
        "  $SYS {",
        *_users([login for login in logins if login.kind == "system"]),
        "  }",
        "  CORE {",
        "    jetstream: enabled",
        *_users(core),
        *_list(
            "exports",
            [f"{{service: {_quoted(subject)}, accounts: [USERS]}}" for subject in _FROM_USERS]
            + [f"{{service: {_quoted(subject)}, accounts: [NODES]}}" for subject in _FROM_NODES]
            + [f"{{stream: {_quoted(subject)}, accounts: [USERS]}}" for subject in _TO_USERS]
            + [f"{{stream: {_quoted(subject)}, accounts: [NODES]}}" for subject in _TO_NODES],
        ),
        *_list("imports", _imports("service", "NODES", _OF_NODES)),
        "  }",
        "  USERS {",
        _LIMITS,
        *_users(users),
        *_list("imports", _imports("service", "CORE", _FROM_USERS) + _imports("stream", "CORE", _TO_USERS)),
        "  }",
        "  NODES {",
        _LIMITS,
        *_users(nodes),
        *_list("exports", [f"{{service: {_quoted(subject)}, accounts: [CORE]}}" for subject in _OF_NODES]),
        *_list("imports", _imports("service", "CORE", _FROM_NODES) + _imports("stream", "CORE", _TO_NODES)),
        "  }",
        "}",
    ]


_LIMITS = f"    limits {{max_connections: {USER_CONNECTIONS}, max_subscriptions: {USER_SUBSCRIPTIONS}}}"


def _callout(issuer: str, logins: Sequence[Credential]) -> list[str]:
    """Whoever has no login here is asked about; those who have one get in whether or not there is an answer."""
    if not issuer:
        return []
    static = ", ".join(_quoted(login.name) for login in logins)
    return [f"authorization {{timeout: 3, auth_callout {{issuer: {issuer}, account: CORE, auth_users: [{static}]}}}}"]


def _users(logins: Sequence[Credential]) -> list[str]:
    return _list("users", [_user(login, rights(login)) for login in logins])


def _user(login: Credential, may: Rights) -> str:
    answers = ', allow_responses: {max: 1, expires: "1m"}' if may.answers else ""
    permissions = f"{{publish: {json.dumps(may.publish)}, subscribe: {json.dumps(may.subscribe)}{answers}}}"
    return f"{{user: {_quoted(login.name)}, password: {_quoted(login.password)}, permissions: {permissions}}}"


def _imports(kind: str, account: str, subjects: Iterable[str]) -> list[str]:
    return [f"{{{kind}: {{account: {account}, subject: {_quoted(subject)}}}}}" for subject in subjects]


def _list(name: str, items: Sequence[str]) -> list[str]:
    return [f"    {name}: [", *(f"      {item}" for item in items), "    ]"]


def _quoted(text: str) -> str:
    return json.dumps(text)
