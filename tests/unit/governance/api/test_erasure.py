from __future__ import annotations

import pytest

from headrace.contracts.api import tenants_pb2 as pb
from headrace.contracts.api import users_pb2
from headrace.governance.api.erasure import erase_tenant, erase_user
from headrace.governance.api.errors import ApiError
from headrace.service.answering import Refused


def asked(**fields):
    return pb.EraseTenantRequest(**{"name": "tenants/default", "reason": "contract ended", **fields})


def forgotten(user="zoe", **fields):
    return users_pb2.EraseUserRequest(**{"name": f"tenants/default/users/{user}", "reason": "asked", **fields})


async def test_the_key_goes_once_the_fact_stands(backend, call, site):
    plan = await erase_tenant(asked(force=True), call("EraseTenant"))
    assert (plan.lines[0], plan.applied, backend.destroyed) == ("~ tenant default", True, ["default"])
    assert int(plan.sequence) == site.state.sequence


async def test_without_force_nothing_goes_and_it_may_be_tried(backend, call, site):
    before = site.state.sequence
    with pytest.raises(ApiError, match="force: what the jobs of default ran can never be read again"):
        await erase_tenant(asked(), call("EraseTenant"))
    tried = await erase_tenant(asked(validate_only=True), call("EraseTenant"))
    assert (tried.applied, backend.destroyed, site.state.sequence) == (False, [], before)


async def test_what_jobs_still_need_stays(backend, call, site):
    site.write("policies: [{name: ml, group: all, profiles: [one]}]")
    site.job("ml/one")
    with pytest.raises(Refused, match="1 jobs of default have not ended"):
        await erase_tenant(asked(force=True), call("EraseTenant"))
    assert backend.destroyed == []


async def test_a_persons_key_goes_once_the_fact_stands_and_they_keep_their_pseudonym(backend, call, site):
    plans = [await erase_user(forgotten(force=True), call("EraseUser")) for _ in range(2)]
    called = site.state.tokens.erased["default", "zoe"]
    assert called.startswith("erased-")
    assert [plan.changes[0].fields for plan in plans] == [[f"erased: shown as {called}"]] * 2
    assert ([plan.applied for plan in plans], backend.destroyed) == ([True, True], ["default.zoe"] * 2)


async def test_without_force_no_user_is_erased_and_it_may_be_tried(backend, call, site):
    before = site.state.sequence
    with pytest.raises(ApiError, match="force: who zoe of default was, and what their jobs ran, can never be read again"):
        await erase_user(forgotten(), call("EraseUser"))
    tried = await erase_user(forgotten(validate_only=True), call("EraseUser"))
    assert (tried.lines, tried.changes[0].fields) == (["- user default/zoe"], ["erased: shown as a pseudonym"])
    assert (tried.applied, backend.destroyed, site.state.sequence) == (False, [], before)


async def test_who_was_never_there_is_taken_for_misspelt(backend, call, site):
    before = site.state.sequence
    with pytest.raises(Refused, match="user: nothing is known of zeo in tenant default; look at the name"):
        await erase_user(forgotten("zeo", force=True), call("EraseUser"))
    with pytest.raises(Refused, match="tenant: there is no defualt, and no text of it"):
        await erase_tenant(asked(name="tenants/defualt", force=True), call("EraseTenant"))
    assert (backend.destroyed, site.state.sequence) == ([], before)


async def test_people_named_by_documents_and_unknown_names_stay(backend, call, site):
    site.write("groups: [{name: ops, members: [mia]}]")
    with pytest.raises(ApiError, match="does not match this kind of name; it looks like tenants"):
        await erase_user(forgotten("zoe/groups/x", force=True), call("EraseUser"))
    with pytest.raises(Refused, match="group ops still names mia"):
        await erase_user(forgotten("mia", force=True), call("EraseUser"))
    assert backend.destroyed == []
