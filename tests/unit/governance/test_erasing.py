"""A tenant's texts are erased when nobody needs them any more."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.queries import EraseRequest
from headrace.governance.erasing import erasing


@pytest.fixture
def busy(site):
    site.write("policies: [{name: p, group: all, profiles: [one]}]")
    return site


def test_a_tenant_without_jobs_is_erased_and_asked_again_once_more(busy):
    for _ in range(2):
        (fact,) = erasing(EraseRequest(tenant="gone", reason="r" * 900), "default.root")(busy.state, 0).facts
        assert fact == f.TenantErasedV1(author="default.root", reason="r" * 500, tenant="gone")
        busy.say(fact)


def test_jobs_that_have_not_ended_keep_their_texts(busy):
    key = busy.job("p/one", on="w1")
    decision = erasing(EraseRequest(tenant="default"), "default.root")(busy.state, 0)
    assert (decision.code, decision.facts) == ("REFUSED", ())
    assert decision.error.startswith("tenant: 1 jobs of default have not ended")
    assert erasing(EraseRequest(tenant="defaul"), "default.root")(busy.state, 0).facts
    busy.release(key)
    assert erasing(EraseRequest(tenant="default"), "default.root")(busy.state, 0).facts


@pytest.mark.parametrize("tenant", ["", "../x", "*", "A"])
def test_what_is_no_tenant_erases_nothing(busy, tenant):
    decision = erasing(EraseRequest(tenant=tenant), "default.root")(busy.state, 0)
    assert (decision.code, decision.facts) == ("INVALID", ())
