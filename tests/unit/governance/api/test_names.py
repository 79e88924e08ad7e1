from __future__ import annotations

import pytest

from headrace.governance.api import names
from headrace.governance.api.errors import ApiError

ID = "01jd3v8k5w2m4x6z8b0c2e4g6h"


def test_names_come_apart_by_their_pattern():
    assert names.parts_of("tenants/acme/queues/ai-dev/half", "tenants/*/queues/*/*") == ("acme", "ai-dev", "half")


@pytest.mark.parametrize(
    "name", ["", "tenants/acme", "tenants/acme/pools/x", "tenants/../queues/a/b", "tenants/A/queues/a/b", "a/b/c/d/e/f"]
)
def test_other_names_are_refused(name):
    with pytest.raises(ApiError) as refused:
        names.parts_of(name, "tenants/*/queues/*/*", "parent")
    assert (refused.value.reason, refused.value.violations[0].field) == ("INVALID_NAME", "parent")


def test_a_job_is_named_by_its_id_or_with_its_user():
    assert names.job_of(f"tenants/acme/jobs/{ID}") == ("acme", ID)
    assert names.job_of(f"tenants/acme/jobs/alice.{ID}") == ("acme", f"acme.alice.{ID}")
    assert names.job_name(f"acme.alice.{ID}") == f"tenants/acme/jobs/{ID}"
    assert names.job_name("") == ""


@pytest.mark.parametrize("name", [f"jobs/{ID}", "tenants/acme/jobs/x", f"tenants/acme/jobs/A.{ID}", f"tenants/a.b/jobs/{ID}"])
def test_what_is_not_a_job_is_refused(name):
    with pytest.raises(ApiError, match="is not a job"):
        names.job_of(name)


@pytest.mark.parametrize(
    ("name", "tenant"), [("tenants/acme/jobs/x", "acme"), ("tenants/acme", "acme"), ("pools/onprem", ""), ("", "")]
)
def test_whose_a_thing_is_stands_in_its_name(name, tenant):
    assert names.tenant_in(name) == tenant


def test_a_name_to_be_made_is_checked():
    assert names.check_id("ai-dev", "group_id") == "ai-dev"
    with pytest.raises(ApiError, match="group_id: 'Ai Dev' is not a name"):
        names.check_id("Ai Dev", "group_id")
