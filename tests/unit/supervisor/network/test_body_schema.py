from __future__ import annotations

from headrace.supervisor.network.body_schema import script


def entry(method, pattern):
    return next(line for line in script().splitlines() if line.strip().startswith(f'{{method="{method}", pattern="{pattern}"'))


def test_each_body_has_its_fields_by_both_of_their_names():
    body = entry("PATCH", "^/v1/tenants/[^/:]+/policies/[^/:]+$").partition("body=")[2]
    assert '["per_pool"]={values={fields={["reservation"]={values="plain"}' in body
    assert '["perPool"]=' in body
    assert '["limit"]={values="plain"}' in body
    assert '["per_pool"]={list=' not in body


def test_what_is_a_list_is_not_a_single_value():
    body = entry("POST", "^/v1/tenants/[^/:]+/jobs:submit$").partition("body=")[2]
    assert '["jobs"]={list={fields={["id"]="plain", ["command"]={list="plain"}' in body
    assert '["after"]={list={fields={["job"]="plain"' in body
    assert '["env"]={values="plain"}' in body


def test_a_struct_may_hold_anything():
    assert '["documents"]="any"' in entry("POST", "^/v1/documents:apply$")


def test_what_has_no_body_is_not_looked_at():
    assert 'method="GET"' not in script()
