"""The configuration of the NATS server: which login may publish and subscribe where (docs/interfaces.md, Accounts).

Strategy: a server sends a stream's acknowledgement, and a service's answer, to whatever reply subject the publisher named, without
checking that the publisher may write there. So outsiders live in accounts of their own, which reach `CORE`, where the streams are, only
through the subjects imported here. An answer to an outsider goes back into the outsider's account, which has no streams; whatever reply
subject is named, nothing is written in `CORE`.

A stream also obeys the headers of its publishers, and answers with the sequence. So what users publish for SUBMIT arrives in `CORE` on
other subjects (`hr.intake.…`), from which services publish it again without its headers (`service.intake`).

- `USERS`: people and service accounts of tenants, and viewers. They submit; they receive only at their own inbox. Questions go to the API.
- `LISTENERS`: the same people's connections that receive the feed: those whose user name ends in `_feed`. In this account publishing is
  denied, so no answer can be directed to subscribers of the feed.
- `FORMER`: the same people until the installation is at level 2. Clients of release 0.1.0 receive the feed on the connection on which they
  submit, with as many subscriptions as that release allowed.
- `ADMINS`: the owner and the provider's administrators, with the subjects of users and the feed. The account has connections of its own,
  so tenants that use up all of theirs cannot keep out the people who have to stop them.
- `NODES`: nodes. (An answer may still be delivered to another node's orders, so a node accepts only what decodes as orders and names that
  node.)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from headrace.bus.nats.cluster_routes import CLUSTER, Routes, clustered
from headrace.contracts.messages.tokens import FEED_SUBSCRIPTIONS, FEED_SUFFIX, inbox_prefix
from headrace.contracts.transport.encoding import MESSAGE_BYTES_MAX
from headrace.contracts.transport.subjects import (
    FEED_STREAM,
    LEDGER_STREAM,
    REQUEST_SUBJECTS,
    SNAPSHOT_STREAM,
    SNAPSHOT_SUBJECTS,
    SUBMIT_STREAM,
    from_intake,
    intake,
    join_query,
    presence,
    turn,
)
from headrace.contracts.values.ids import is_token

HEADER_BYTES = 16 * 1024
MAX_CONNECTIONS = 32_768
MAX_PENDING = 48 * 1024 * 1024
"""Bytes that a server buffers for one connection that does not read; beyond that it closes the connection, and what was not read is lost.

NATS has one setting for all connections, services included. It is the window of a reader of the ledger (32 MiB,
`bus.nats.jetstream_reader`) and two of the largest messages: with 24 MiB readers that stop for a second were disconnected. A connection
that reads nothing for ten seconds is closed in any case.
"""
LOOPBACK = "127.0.0.1"

CONNECTIONS = {"USERS": 4_096, "LISTENERS": 4_096, "FORMER": 4_096, "ADMINS": 256, "NODES": 16_384}
"""Maximum number of connections per account.

Together below `MAX_CONNECTIONS`, so that no account uses up those of others or of services.
"""
SUBSCRIPTIONS = {"USERS": 4, "LISTENERS": FEED_SUBSCRIPTIONS, "FORMER": 256, "ADMINS": 256, "NODES": 8}
"""Maximum number of subscriptions per connection, by account: our client needs one, a node three."""

Kind = Literal["operator", "service", "callout", "system", "user", "admin", "viewer", "node", "instance"]


class Credential(NamedTuple):
    """One login; `kind` determines its rights.

    `operator`: everything in `CORE` (makes the streams, repairs). `service`: what `SERVICES` has for its name. `callout` answers which
    logins may connect, and `system` disconnects those that no longer may. `user`: submits, cancels and requeues as `tenant`.`user`,
    and receives its tenant's feed. `admin`: the same as any user of any tenant (the owner of a laptop); `viewer` receives the feed of all
    tenants. `node`: publishes for `node`.
    `instance`: exchanges its one-time code for the token of `node`. Names are tokens and unique; passwords are printable ASCII.
    """

    name: str
    password: str
    kind: Kind
    tenant: str = ""
    user: str = ""
    node: str = ""


class Rights(NamedTuple):
    """Subjects that one login may publish and subscribe to. `answers`: it may answer what it receives, once each."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    answers: bool = False


def _reads(stream: str) -> tuple[str, ...]:
    """Subjects that reading a stream needs: its state, its messages, and flow control."""
    return (
        f"$JS.API.STREAM.INFO.{stream}",
        f"$JS.API.STREAM.MSG.GET.{stream}",
        f"$JS.API.DIRECT.GET.{stream}",
        f"$JS.API.CONSUMER.CREATE.{stream}.*",
        f"$JS.FC.{stream}.>",
    )


_TO_OTHER_ACCOUNTS = "_R_.>"
"""Subjects of answers to other accounts; the server creates one for each answer."""
_STATUS = ("_INBOX_operator.>", "_INBOX_governance.>")
"""Subjects of answers to who asks each service for its status: the operator, who is in their account, and *governance*."""
_ANSWERS = (_TO_OTHER_ACCOUNTS, *_STATUS)
"""Subjects of answers of services that users or nodes speak to."""

_INTAKE = intake("hr.>")

_FOLDS = (*_reads(LEDGER_STREAM), *_reads(SNAPSHOT_STREAM))
"""Subjects that folding needs: a snapshot to begin with, and the ledger."""

_ASKED_BY_GOVERNANCE = (
    *("accounting.usage", "accounting.statement", "accounting.audit", "provider.usage", "provider.statement", "provider.audit"),
    *(f"{books}.{what}" for books in ("accounting", "provider") for what in ("utilization", "preemptions", "timeline")),
    "audit.verified",
    *("admission.judge", "callout.pause", "provisioner.check", "provisioner.end", "*.status"),
)

SERVICES: dict[str, Rights] = {
    "admission": Rights(
        (
            "hr.ledger.admission",
            *_FOLDS,
            *_reads(SUBMIT_STREAM),
            f"$JS.API.STREAM.PURGE.{SUBMIT_STREAM}",
            *(*REQUEST_SUBJECTS, *_ANSWERS),
        ),
        ("hr.query.admission.>", _INTAKE),
    ),
    "allocator": Rights(
        ("hr.ledger.allocator", turn("allocator"), *_FOLDS, *_STATUS),
        ("hr.query.allocator.>", "hr.query.allocator-standby.>", turn("allocator")),
    ),
    "preemption": Rights(
        ("hr.ledger.preemption", turn("preemption"), *_FOLDS, *_STATUS),
        ("hr.query.preemption.>", "hr.query.preemption-standby.>", "hr.telemetry.>", turn("preemption")),
    ),
    "governance": Rights(
        (
            *("hr.ledger.governance", "hr.submit.>", "hr.cancel.>", "hr.requeue.>"),
            *(f"hr.query.{what}.*.*" for what in _ASKED_BY_GOVERNANCE),
            "hr.logs.*",
            *_FOLDS,
            *(*_ANSWERS, "_INBOX_callout.>", "_INBOX_provisioner.>"),
        ),
        ("hr.query.governance.>", _INTAKE, "hr.feed.>", "hr.telemetry.*.heartbeat", presence("*")),
    ),
    "feed": Rights(
        ("hr.feed.>", "hr.orders.*", "hr.logs.*", turn("feed"), *_FOLDS, *_reads(FEED_STREAM), *_ANSWERS),
        ("hr.query.feed.>", "hr.query.feed-standby.>", "hr.query.orders.node.*", "hr.telemetry.>", turn("feed")),
    ),
    "accounting": Rights(
        (*_FOLDS, *_STATUS),
        ("hr.query.accounting.>", "hr.query.provider.>", "hr.telemetry.*.samples"),
    ),
    "audit": Rights(
        ("hr.ledger.audit", *SNAPSHOT_SUBJECTS, f"$JS.API.STREAM.PURGE.{SNAPSHOT_STREAM}", *_FOLDS, *_STATUS),
        ("hr.query.audit.>",),
    ),
    "provisioner": Rights(
        (
            "hr.ledger.provisioner",
            "hr.query.governance.instance-token.*.*",
            turn("provisioner"),
            *_FOLDS,
            *_ANSWERS,
        ),
        ("hr.query.provisioner.>", "hr.query.provisioner-standby.>", turn("provisioner")),
    ),
}
"""The services of `CORE`: each writes the ledger in its own name only, and reads the streams it folds."""

STANDBYS = ("allocator", "preemption", "feed", "provisioner")
STANDBY = "-standby"
"""Services that may have a second instance, which waits, and the end of its name."""

CALLOUT_USER = "callout"
"""The login of the auth callout."""

CALLOUT = Rights(
    (
        *(f"$JS.API.STREAM.INFO.{LEDGER_STREAM}", f"$JS.API.STREAM.MSG.GET.{LEDGER_STREAM}"),
        *("hr.query.governance.claim.*.*", "hr.query.governance.storage.*.*", presence(CALLOUT_USER), _TO_OTHER_ACCOUNTS),
    ),
    ("$SYS.REQ.USER.AUTH", "hr.ledger.governance", "hr.query.callout.>"),
    answers=True,
)
"""Rights of the auth callout.

It receives the server's questions, reads what governance has written, asks governance to record what a provider's token claims, and writes
nothing.
"""

SYSTEM = Rights((*(f"$SYS.REQ.SERVER.PING.{what}" for what in ("CONNZ", "VARZ", "JSZ")), "$SYS.REQ.SERVER.*.KICK"), ())
"""Rights in the servers' own account: sees the servers' state and connections, and ends a connection."""

_FROM_USERS = tuple(map(intake, REQUEST_SUBJECTS))
_SUBMITTING = ("USERS", "FORMER", "ADMINS")
_FROM_NODES = ("hr.ledger.node.*", "hr.telemetry.*.*", "hr.query.orders.node.*", join_query("*"))
_HEARING = ("LISTENERS", "FORMER", "ADMINS")
_FEED = ("hr.feed.>",)
_TO_NODES = ("hr.orders.*",)
_OF_NODES = ("hr.logs.*",)


def rights(credential: Credential) -> Rights:
    """Rights of this login, its own inbox included: that of the bearer if the password is a token."""
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
            base = Rights((f"hr.submit.{own}.>", f"hr.cancel.{own}.>", f"hr.requeue.{own}.>"), ())
        case "admin":
            base = Rights(("hr.submit.>", "hr.cancel.>", "hr.requeue.>"), _FEED)
        case "viewer":
            base = Rights((), ())
        case "node":
            base = Rights(
                (f"hr.ledger.node.{node}", f"hr.telemetry.{node}.>", f"hr.query.orders.node.{node}"),
                (f"hr.orders.{node}", f"hr.logs.{node}"),
                answers=True,
            )
        case "instance":
            base = Rights((join_query(node),), ())
    return base._replace(subscribe=(*base.subscribe, inbox))


def hearing(credential: Credential) -> Rights:
    """The rights of a user's connection that receives the feed of its tenant (administrators and viewers: of all) and may not publish."""
    return Rights((), (f"hr.feed.{credential.tenant}.>" if credential.kind == "user" else "hr.feed.>",))


def account_of(kind: Kind, *, on_feed: bool = False) -> str:
    """The account of a login of this kind. `on_feed`: of its connection that receives the feed."""
    if on_feed and kind in ("user", "viewer"):
        return "LISTENERS"
    return {"system": "$SYS", "user": "USERS", "viewer": "USERS", "admin": "ADMINS", "node": "NODES", "instance": "NODES"}.get(
        kind, "CORE"
    )


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
    """The text of the server's configuration file; it contains passwords, so it must be written with mode 0600.

    `port` -1: any free one, which the server writes into a file in `ports_file_dir`. `issuer`: the public key that signs the answers about
    other logins; without one, only `credentials` may connect. `tls`: the files of a certificate and its key. `cluster`: the other servers.
    Raises `ValueError` for a login without a proper tenant, user, node or service.
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
        f"max_payload: {MESSAGE_BYTES_MAX + HEADER_BYTES}",
        f"max_connections: {MAX_CONNECTIONS}",
        f"max_pending: {MAX_PENDING}",
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
        raise ValueError(f"unknown service {login.name!r}: use one of {', '.join(sorted(SERVICES))}")
    for what, name in names.items():
        if not is_token(name):
            raise ValueError(f"the {what} {name!r} of a login has to be 1 to 63 of a-z, 0-9 and '-'")
    if not (login.password.isascii() and login.password.isprintable()) or login.password[:1] in {"", "$"}:
        raise ValueError(f"the password of {login.name} has to be printable ASCII, not empty, and not begin with '$'")


def _accounts(logins: Sequence[Credential]) -> list[str]:
    asking, hearing_too = ", ".join(_SUBMITTING), ", ".join(_HEARING)
    return [
        "accounts {",
        "  $SYS {",
        *_list("users", _users("$SYS", logins)),
        "  }",
        "  CORE {",
        "    jetstream: enabled",
        *_list("users", _users("CORE", logins)),
        *_list(
            "exports",
            [f"{{service: {_quoted(subject)}, accounts: [{asking}]}}" for subject in _FROM_USERS]
            + [f"{{service: {_quoted(subject)}, accounts: [NODES]}}" for subject in _FROM_NODES]
            + [f"{{stream: {_quoted(subject)}, accounts: [{hearing_too}]}}" for subject in _FEED]
            + [f"{{stream: {_quoted(subject)}, accounts: [NODES]}}" for subject in _TO_NODES],
        ),
        *_list("imports", _imports("service", "NODES", _OF_NODES)),
        "  }",
        *(line for account in CONNECTIONS for line in _outsiders(account, logins)),
        "}",
    ]


def _outsiders(account: str, logins: Sequence[Credential]) -> list[str]:
    """An account outside `CORE`, with its limits."""
    imports = [
        *_imports("service", "CORE", _FROM_USERS if account in _SUBMITTING else _FROM_NODES if account == "NODES" else ()),
        *_imports("stream", "CORE", _FEED if account in _HEARING else _TO_NODES if account == "NODES" else ()),
    ]
    exports = [f"{{service: {_quoted(subject)}, accounts: [CORE]}}" for subject in _OF_NODES] if account == "NODES" else []
    return [
        f"  {account} {{",
        f"    limits {{max_connections: {CONNECTIONS[account]}, max_subscriptions: {SUBSCRIPTIONS[account]}}}",
        *_list("users", _users(account, logins)),
        *(_list("exports", exports) if exports else ()),
        *_list("imports", imports),
        "  }",
    ]


def _has_feed_connection(login: Credential) -> bool:
    """True if a login has a second connection, which receives the feed."""
    return account_of(login.kind) in _SUBMITTING


def _callout(issuer: str, logins: Sequence[Credential]) -> list[str]:
    """Configuration of the auth callout for logins that are not in this file; those in the file do not depend on it."""
    if not issuer:
        return []
    names = [login.name for login in logins] + [f"{login.name}{FEED_SUFFIX}" for login in logins if _has_feed_connection(login)]
    static = ", ".join(map(_quoted, names))
    return [f"authorization {{timeout: 3, auth_callout {{issuer: {issuer}, account: CORE, auth_users: [{static}]}}}}"]


def _users(account: str, logins: Sequence[Credential]) -> list[str]:
    feed_logins = [login for login in logins if _has_feed_connection(login) and account_of(login.kind, on_feed=True) == account]
    return [
        *(_user(login, rights(login)) for login in logins if account_of(login.kind) == account),
        *(_user(login, hearing(login), FEED_SUFFIX) for login in feed_logins),
    ]


def _user(login: Credential, may: Rights, suffix: str = "") -> str:
    answers = ', allow_responses: {max: 1, expires: "1m"}' if may.answers else ""
    publish = may.publish or {"deny": [">"]}
    permissions = f"{{publish: {json.dumps(publish)}, subscribe: {json.dumps(may.subscribe)}{answers}}}"
    return f"{{user: {_quoted(login.name + suffix)}, password: {_quoted(login.password)}, permissions: {permissions}}}"


def _imports(kind: str, account: str, subjects: Iterable[str]) -> list[str]:
    return [f"{{{kind}: {{account: {account}, subject: {_quoted(subject)}}}{_called(subject)}}}" for subject in subjects]


def _called(subject: str) -> str:
    """The clause that renames an imported subject; "" if it keeps its name."""
    local = from_intake(subject)
    return "" if local == subject else f", to: {_quoted(local)}"


def _list(name: str, items: Sequence[str]) -> list[str]:
    return [f"    {name}: [", *(f"      {item}" for item in items), "    ]"]


def _quoted(text: str) -> str:
    return json.dumps(text)
