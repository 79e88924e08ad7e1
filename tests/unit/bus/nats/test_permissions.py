"""The configuration text of the NATS server; what it means is proven on a real one in the integration tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.bus.nats.permissions import (
    CONNECTIONS,
    MAX_CONNECTIONS,
    SERVICES,
    Credential,
    Rights,
    hearing,
    rights,
    server_config,
)
from headrace.contracts.transport.subjects import SNAPSHOT_SUBJECTS

STORE = Path("store")


def test_a_user_speaks_for_itself_and_hears_its_inbox_only() -> None:
    may = rights(Credential("acme-alice", "x", "user", tenant="acme", user="alice"))
    assert may.publish == (
        "hr.submit.acme.alice.>",
        "hr.cancel.acme.alice.>",
        "hr.requeue.acme.alice.>",
    )
    assert may.subscribe == ("_INBOX_acme-alice.>",)
    assert may.answers is False


def test_a_node_speaks_for_itself_and_answers_for_its_logs() -> None:
    may = rights(Credential("node-gpu01", "x", "node", node="gpu01"))
    assert may.publish == ("hr.ledger.node.gpu01", "hr.telemetry.gpu01.>", "hr.query.orders.node.gpu01")
    assert may.subscribe == ("hr.orders.gpu01", "hr.logs.gpu01", "_INBOX_node-gpu01.>")
    assert may.answers is True


def test_only_one_login_may_publish_each_services_records() -> None:
    for service in ("admission", "allocator", "preemption", "governance"):
        writers = [name for name, may in SERVICES.items() if f"hr.ledger.{service}" in may.publish]
        assert writers == [service]
    everything = {subject for may in SERVICES.values() for subject in may.publish}
    assert not {">", "hr.>", "hr.ledger.>", "hr.ledger.*", "$JS.>", "$JS.API.>"} & everything


def test_who_answers_who_may_connect_writes_nothing() -> None:
    may = rights(Credential("callout", "x", "callout"))
    looks = ("$JS.API.STREAM.INFO.LEDGER", "$JS.API.STREAM.MSG.GET.LEDGER")
    assert may.publish == (
        *looks,
        "hr.query.governance.claim.*.*",
        "hr.query.governance.storage.*.*",
        "hr.presence.callout",
        "_R_.>",
    )
    assert may.subscribe == ("$SYS.REQ.USER.AUTH", "hr.ledger.governance", "hr.query.callout.>", "_INBOX_callout.>")
    system = rights(Credential("callout-system", "x", "system"))
    looks = ("$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.SERVER.PING.VARZ", "$SYS.REQ.SERVER.PING.JSZ")
    assert system.publish == (*looks, "$SYS.REQ.SERVER.*.KICK")
    assert system.subscribe == ("_INBOX_callout-system.>",)


def test_who_only_looks_publishes_nothing_and_hears_the_feed_on_another_connection() -> None:
    viewer = Credential("default_eye", "", "viewer")
    assert rights(viewer) == ((), ("_INBOX_default_eye.>",), False)
    assert hearing(viewer) == ((), ("hr.feed.>",), False)


def test_only_services_and_the_operator_query_services() -> None:
    people = [
        Credential("a", "x", "user", tenant="acme", user="alice"),
        Credential("b", "x", "admin"),
        Credential("c", "x", "viewer"),
    ]
    asked = {subject for one in people for subject in rights(one).publish if "query" in subject}
    assert asked == set()
    assert {name for name, may in SERVICES.items() if any("hr.query." in subject for subject in may.publish)} == {
        "governance",
        "provisioner",
    }


def test_with_a_certificate_the_server_speaks_tls() -> None:
    text = server_config([Credential("operator", "x", "operator")], STORE, tls=("/tls/server.pem", "/tls/server.key"))
    assert 'tls {cert_file: "/tls/server.pem", key_file: "/tls/server.key", timeout: 5}' in text.splitlines()
    assert "tls {" not in server_config([Credential("operator", "x", "operator")], STORE)


def test_with_an_issuer_every_client_without_a_login_here_is_asked_about() -> None:
    logins = [Credential("operator", "x", "operator"), Credential("callout-system", "x", "system")]
    text = server_config(logins, STORE, issuer="AABC")
    line = 'authorization {timeout: 3, auth_callout {issuer: AABC, account: CORE, auth_users: ["operator", "callout-system"]}}'
    assert line in text.splitlines()
    assert "authorization" not in server_config(logins, STORE)
    assert text.index("  $SYS {") < text.index('user: "callout-system"') < text.index("  CORE {")
    assert [line.strip() for line in text.splitlines() if "limits {" in line] == [
        "limits {max_connections: 4096, max_subscriptions: 4}",
        "limits {max_connections: 4096, max_subscriptions: 8}",
        "limits {max_connections: 4096, max_subscriptions: 256}",
        "limits {max_connections: 256, max_subscriptions: 256}",
        "limits {max_connections: 16384, max_subscriptions: 8}",
    ]
    assert "max_pending: 50331648" in text.splitlines()


def test_no_account_can_take_the_connections_of_another_or_of_the_services() -> None:
    assert sum(CONNECTIONS.values()) <= MAX_CONNECTIONS - 1_024


def test_every_commit_goes_to_the_disk_and_passwords_are_quoted() -> None:
    text = server_config([Credential("operator", 'a"b\\c {}', "operator")], STORE, port=-1, ports_file_dir=Path("ports"))
    assert 'jetstream { store_dir: "store", sync_interval: always }' in text
    assert r'password: "a\"b\\c {}"' in text
    assert 'listen: "127.0.0.1:-1"' in text
    assert 'ports_file_dir: "ports"' in text


def test_what_users_publish_for_submit_arrives_where_no_stream_listens_and_only_two_services_hear_it() -> None:
    text = server_config([Credential("operator", "x", "operator")], STORE)
    core = text.split("  CORE {")[1].split("\n  }")[0]
    pairs = [
        ("hr.intake.submit.*.*.*.*", "hr.submit.*.*.*.*"),
        ("hr.intake.cancel.*.*.*", "hr.cancel.*.*.*"),
        ("hr.intake.requeue.*.*.*", "hr.requeue.*.*.*"),
    ]
    for account in ("USERS", "FORMER", "ADMINS"):
        inside = text.split(f"  {account} {{")[1].split("\n  }")[0]
        imports = [
            line.strip() for line in inside.splitlines() if "hr.submit" in line or "hr.cancel" in line or "hr.requeue" in line
        ]
        assert imports == [f'{{service: {{account: CORE, subject: "{there}"}}, to: "{here}"}}' for there, here in pairs]
    exports = [line.split('"')[1] for line in core.splitlines() if line.strip().startswith("{service:")]
    assert exports[:3] == [there for there, _ in pairs]
    asked = {subject for subject in exports if subject.startswith("hr.query.")}
    assert asked == {"hr.query.orders.node.*", "hr.query.governance.join.instances.*"}
    assert [name for name, may in SERVICES.items() if "hr.intake.>" in may.subscribe] == ["admission", "governance"]


def test_each_login_stands_in_its_account() -> None:
    text = server_config(
        [
            Credential("allocator", "x", "service"),
            Credential("owner", "x", "admin"),
            Credential("node-gpu01", "x", "node", node="gpu01"),
        ],
        STORE,
    )
    lines = [line for line in text.splitlines() if line.startswith("  ") and (line.endswith(" {") or "{user:" in line)]
    found = [line.split('"')[1] if "{user:" in line else line.split()[0] for line in lines]
    assert found == [
        *("$SYS", "CORE", "allocator", "USERS", "LISTENERS", "FORMER", "ADMINS", "owner", "owner_feed", "NODES", "node-gpu01")
    ]


def test_a_connection_that_hears_the_feed_hears_its_tenant_and_may_not_publish() -> None:
    alice = Credential("acme-alice", "x", "user", tenant="acme", user="alice")
    assert hearing(alice) == Rights((), ("hr.feed.acme.>",))
    listeners = server_config([alice], STORE).split("LISTENERS {")[1].split("FORMER {")[0]
    assert (
        'user: "acme-alice_feed", password: "x", permissions: {publish: {"deny": [">"]}, subscribe: ["hr.feed.acme.>"]}'
        in listeners
    )


def test_the_feed_reaches_accounts_in_which_tenants_may_not_publish_and_those_of_administrators_and_of_the_former_release() -> (
    None
):
    text = server_config([Credential("operator", "x", "operator")], STORE)
    accounts = {name: text.split(f"  {name} {{")[1].split("\n  }")[0] for name in CONNECTIONS}
    feed = '{stream: {account: CORE, subject: "hr.feed.>"}}'
    assert [name for name, inside in accounts.items() if feed in inside] == ["LISTENERS", "FORMER", "ADMINS"]
    assert [name for name, inside in accounts.items() if "hr.submit" in inside] == ["USERS", "FORMER", "ADMINS"]


def test_no_service_answers_into_a_stream_that_it_does_not_write() -> None:
    own = {
        "admission": {"hr.submit.*.*.*.*", "hr.cancel.*.*.*", "hr.requeue.*.*.*"},
        "feed": {"hr.feed.>"},
        "governance": {"hr.submit.>", "hr.cancel.>", "hr.requeue.>"},
        "audit": {*SNAPSHOT_SUBJECTS},
    }
    written = {
        name: {subject for subject in may.publish if not subject.startswith(("$JS.", "_", "hr.query."))}
        for name, may in SERVICES.items()
    }
    streams = ("hr.ledger.", "hr.feed.", "hr.submit.", "hr.cancel.", "hr.requeue.", "$O.")
    found = {name: {subject for subject in subjects if subject.startswith(streams)} for name, subjects in written.items()}
    assert found == {
        name: own.get(name, set()) | ({f"hr.ledger.{name}"} if name not in ("feed", "accounting") else set())
        for name in SERVICES
    }


@pytest.mark.parametrize(
    ("logins", "complaint"),
    [
        ([Credential("alice", "x", "user", tenant="ac*me", user="alice")], "tenant 'ac\\*me'"),
        ([Credential("alice", "x", "user", tenant="acme")], "user ''"),
        ([Credential("n", "x", "node", node=">")], "node '>'"),
        ([Credential("a b", "x", "admin")], "name 'a b'"),
        ([Credential("gardener", "x", "service")], "unknown service 'gardener': use one of accounting, admission"),
        ([Credential("owner", "", "admin")], "password of owner"),
        ([Credential("owner", "$2a$10$x", "admin")], "password of owner"),
        ([Credential("owner", "x\ny", "admin")], "password of owner"),
        ([Credential("owner", "x", "admin"), Credential("owner", "y", "operator")], "two logins are called 'owner'"),
    ],
)
def test_a_login_that_could_widen_its_rights_is_refused(logins: list[Credential], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        server_config(logins, STORE)
