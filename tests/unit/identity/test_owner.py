"""The owner's password identifies the owner, and nothing else does."""

from __future__ import annotations

import json

from headrace.identity.caller import Role
from headrace.identity.owner import OwnerLogin


def test_the_owners_password_is_the_owner_as_an_administrator_of_the_installation(tmp_path):
    (tmp_path / "credentials").mkdir()
    login = {"name": "owner", "password": "secret", "kind": "admin", "tenant": "default", "user": "ann"}
    (tmp_path / "credentials" / "owner.json").write_text(json.dumps(login))
    caller = OwnerLogin(tmp_path).caller("secret")
    assert (caller.role, caller.author, caller.token) == (Role.PROVIDER_ADMIN, "default.ann", "")
    assert [OwnerLogin(tmp_path).caller(text) for text in ("", "secre", "secret ", "sécret")] == [None] * 4


def test_without_a_login_no_caller_is_the_owner(tmp_path):
    assert OwnerLogin(tmp_path).caller("") is None
    (tmp_path / "credentials").mkdir()
    (tmp_path / "credentials" / "owner.json").write_text(json.dumps({"name": "owner", "password": ""}))
    assert OwnerLogin(tmp_path).caller("") is None
