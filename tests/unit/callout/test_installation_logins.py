"""Which user names and passwords are those of nodes in an installation's files."""

from __future__ import annotations

import pytest

from headrace.callout.installation_logins import InstallationLogins
from headrace.callout.questions import Question
from headrace.identity.caller import Caller, Role
from headrace.identity.owner import NEVER
from headrace.supervisor.installation import Installation

BOX = Caller(Role.NODE, "", "box", expires_at=NEVER)


@pytest.fixture
def installation(tmp_path):
    made = Installation(tmp_path)
    made.prepare()
    made.node("box")
    return made


def asked(user, password):
    return Question("server", "key", password, "127.0.0.1", user)


def test_a_node_of_the_installation_is_known_by_its_login(installation, tmp_path):
    logins = InstallationLogins(tmp_path)
    assert logins.node(asked("node-box", installation.node("box").password)) == BOX


def test_no_other_name_and_no_other_password_is_a_nodes(installation, tmp_path):
    logins, password = InstallationLogins(tmp_path), installation.node("box").password
    owner = installation.owner()
    (tmp_path / "node-out.json").write_bytes((tmp_path / "credentials/node-box.json").read_bytes())
    (tmp_path / "credentials/node-bad.json").write_text("{")
    (tmp_path / "credentials/node-open.json").write_text(
        '{"name": "node-open", "password": "", "kind": "node", "node": "open"}'
    )
    wrong = [
        ("node-box", ""),
        ("node-box", password[:-1]),
        ("node-box", "\ud800"),
        ("node-none", password),
        ("../node-out", password),
        ("node-bad", password),
        ("node-open", ""),
        ("", password),
        (owner.name, owner.password),
    ]
    assert [logins.node(asked(user, shown)) for user, shown in wrong] == [None] * len(wrong)
