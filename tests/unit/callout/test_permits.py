"""What each role may do on the bus."""

from __future__ import annotations

import pytest

from headrace.bus.nats.permissions import Rights
from headrace.callout.permits import LIFETIME, ConnectionTag, permit, read_tag
from headrace.contracts.messages.tokens import inbox_prefix
from headrace.identity.caller import Caller, Role

NOW = 1_800_000_000
TOKEN = "eyJ0.eyJz.c2ln"
INBOX = f"{inbox_prefix('', TOKEN)}.>"


def caller(role, tenant="acme", handle="ann", expires_at=(NOW + 10**6) * 1_000_000):
    return Caller(role, tenant, handle, token="t1", expires_at=expires_at)


@pytest.mark.parametrize("role", [Role.TENANT_ADMIN, Role.TENANT_MEMBER, Role.SERVICE_ACCOUNT])
def test_people_and_service_accounts_speak_as_themselves_and_hear_their_inbox_only(role):
    given = permit(caller(role), TOKEN, 0, NOW)
    assert given.account == "USERS"
    assert given.rights.subscribe == (INBOX,)
    assert all(".acme.ann" in subject for subject in given.rights.publish)
    assert not [subject for subject in given.rights.publish if subject.startswith(("$", "hr.ledger", "hr.feed", "hr.orders"))]


@pytest.mark.parametrize(
    ("role", "tenant", "subject"),
    [
        (Role.TENANT_ADMIN, "acme", "hr.feed.acme.>"),
        (Role.TENANT_MEMBER, "acme", "hr.feed.acme.>"),
        (Role.SERVICE_ACCOUNT, "acme", "hr.feed.acme.>"),
        (Role.PROVIDER_VIEWER, "default", "hr.feed.>"),
    ],
)
@pytest.mark.parametrize("former", [True, False])
def test_a_connection_that_hears_the_feed_publishes_nothing_in_an_account_where_publishing_is_denied(
    role, tenant, subject, former
):
    given = permit(caller(role, tenant), TOKEN, 0, NOW, former=former, asked_as="any_feed")
    assert (given.account, given.rights) == ("LISTENERS", Rights((), (subject,)))


def test_administrators_hear_the_feed_in_their_own_account_so_that_users_cannot_keep_them_out():
    given = permit(caller(Role.PROVIDER_ADMIN, "default"), TOKEN, 0, NOW, asked_as="default_ops_feed")
    assert (given.account, given.rights) == ("ADMINS", Rights((), ("hr.feed.>",)))


@pytest.mark.parametrize(
    ("role", "tenant", "account", "subject"),
    [
        (Role.TENANT_MEMBER, "acme", "FORMER", "hr.feed.acme.>"),
        (Role.PROVIDER_VIEWER, "default", "FORMER", "hr.feed.>"),
        (Role.PROVIDER_ADMIN, "default", "ADMINS", "hr.feed.>"),
    ],
)
def test_clients_of_release_0_1_0_hear_the_feed_where_they_ask_until_the_level_is_raised(role, tenant, account, subject):
    given = permit(caller(role, tenant), TOKEN, 0, NOW, former=True)
    assert given.account == account
    assert subject in given.rights.subscribe
    assert given.rights.publish == permit(caller(role, tenant), TOKEN, 0, NOW).rights.publish


def test_a_node_that_asks_for_the_feed_is_a_node():
    asked = permit(caller(Role.NODE, "", "gpu01"), TOKEN, 0, NOW, asked_as="node_gpu01_feed")
    assert asked == permit(caller(Role.NODE, "", "gpu01"), TOKEN, 0, NOW)


def test_a_node_speaks_as_itself_in_an_account_of_its_own():
    given = permit(caller(Role.NODE, "", "gpu01"), TOKEN, 0, NOW)
    assert given.account == "NODES"
    assert given.rights.publish == ("hr.ledger.node.gpu01", "hr.telemetry.gpu01.>", "hr.query.orders.node.gpu01")
    assert given.rights.subscribe == ("hr.orders.gpu01", "hr.logs.gpu01", INBOX)
    assert given.rights.answers is True


def test_an_administrator_may_act_as_any_user_and_a_viewer_submits_nothing():
    admin, viewer = (
        permit(caller(role, "default", "ops"), TOKEN, 0, NOW) for role in (Role.PROVIDER_ADMIN, Role.PROVIDER_VIEWER)
    )
    assert (admin.account, viewer.account) == ("ADMINS", "USERS")
    assert "hr.submit.>" in admin.rights.publish
    assert not [subject for subject in viewer.rights.publish if not subject.startswith("hr.query.")]


@pytest.mark.parametrize("role", Role)
def test_no_user_has_the_streams_api_or_writes_a_services_records(role):
    given = permit(caller(role), TOKEN, 0, NOW)
    everything = (*given.rights.publish, *given.rights.subscribe)
    assert not [subject for subject in everything if subject.startswith("$") or subject in (">", "*", "hr.>", "hr.ledger.>")]


def test_a_permission_is_short_and_never_longer_than_the_token():
    assert permit(caller(Role.NODE), TOKEN, 0, NOW).until == NOW + LIFETIME
    assert permit(caller(Role.NODE, expires_at=(NOW + 5) * 1_000_000), TOKEN, 0, NOW).until == NOW + 5


def test_no_two_tokens_hear_what_is_answered_to_one_of_them():
    member, admin = (caller(role, "default", "ops") for role in (Role.TENANT_MEMBER, Role.PROVIDER_ADMIN))
    given = [
        permit(who, token, 0, NOW) for who, token in ((member, TOKEN), (admin, "eyJ0.eyJz.b3Ro"), (member, "eyJ0.eyJz.bWlu"))
    ]
    inboxes = [[inbox for inbox in one.rights.subscribe if inbox.startswith("_INBOX")] for one in given]
    assert [len(inbox) for inbox in inboxes] == [1, 1, 1]
    assert len({inbox for (inbox,) in inboxes}) == 3


def test_programs_of_the_release_before_are_answered_where_they_wait_until_the_level_is_raised_but_for_the_providers_people():
    people = [
        caller(Role.TENANT_MEMBER),
        caller(Role.NODE, "", "gpu01"),
        caller(Role.PROVIDER_ADMIN),
        caller(Role.PROVIDER_VIEWER),
    ]
    former_subjects = [set(permit(who, TOKEN, 0, NOW, former=True).rights.subscribe) for who in people]
    later = [set(permit(who, TOKEN, 0, NOW).rights.subscribe) for who in people]
    assert [was - now for was, now in zip(former_subjects, later, strict=True)] == [
        {"_INBOX_acme_ann.>", "hr.feed.acme.>"},
        {"_INBOX_node_gpu01.>"},
        set(),
        {"hr.feed.>"},
    ]


@pytest.mark.parametrize(
    "tag",
    [
        ConnectionTag("acme", "ann", "t1", 0, "tenant member", "UABC"),
        ConnectionTag("", "gpu01", "t1", 5, "node", "UABC"),
        ConnectionTag("acme", "ann", 'a|b"c', 0, "tenant admin", "UABC"),
    ],
)
def test_a_tag_is_read_as_it_was_written(tag):
    assert read_tag(str(tag)) == tag


def test_tags_of_connections_that_release_0_1_0_let_in_are_read():
    assert read_tag("acme|ann|5|a|b") == ConnectionTag("acme", "ann", "a|b", 5)


def test_a_permit_says_whose_connection_it_is_by_role_and_by_the_key_of_the_connection():
    member, account = (
        permit(caller(role), TOKEN, 7, NOW, connection="UABC").whose for role in (Role.TENANT_MEMBER, Role.SERVICE_ACCOUNT)
    )
    assert member == ConnectionTag("acme", "ann", "t1", 7, "tenant member", "UABC")
    assert account == member._replace(role="service account")


@pytest.mark.parametrize("text", ["", "allocator", "a|b|c", "a|b|c|d", "a|b|-1|d", "[]", '["acme", "ann", "t1", "0"]'])
def test_what_is_not_a_tag_is_ignored(text):
    assert read_tag(text) is None


def test_a_node_with_a_login_of_the_installation_has_the_inbox_of_that_name():
    given = permit(Caller(Role.NODE, "", "box", expires_at=2**62), "password", 0, NOW, asked_as="node-box")
    assert (given.account, given.until) == ("NODES", NOW + LIFETIME)
    assert given.rights.subscribe == ("hr.orders.box", "hr.logs.box", "_INBOX_node-box.>")
