from __future__ import annotations

import pytest

from headrace.contracts.api import tenants_pb2 as pb
from headrace.governance.api.erasing import erase_tenant
from headrace.governance.api.faults import Fault
from headrace.service.answering import Refused


def asked(**said):
    return pb.EraseTenantRequest(**{"name": "tenants/default", "reason": "contract ended", **said})


async def test_the_key_goes_once_the_fact_stands(office, call, site):
    plan = await erase_tenant(asked(force=True), call("EraseTenant"))
    assert (plan.lines[0], plan.applied, office.destroyed) == ("~ tenant default", True, ["default"])
    assert int(plan.sequence) == site.state.sequence


async def test_without_force_nothing_goes_and_it_may_be_tried(office, call, site):
    before = site.state.sequence
    with pytest.raises(Fault, match="force: what the jobs of default ran can never be read again"):
        await erase_tenant(asked(), call("EraseTenant"))
    tried = await erase_tenant(asked(validate_only=True), call("EraseTenant"))
    assert (tried.applied, office.destroyed, site.state.sequence) == (False, [], before)


async def test_what_jobs_still_need_stays(office, call, site):
    site.write("policies: [{name: ml, group: all, profiles: [one]}]")
    site.job("ml/one")
    with pytest.raises(Refused, match="1 jobs of default have not ended"):
        await erase_tenant(asked(force=True), call("EraseTenant"))
    assert office.destroyed == []
