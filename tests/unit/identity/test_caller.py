"""What a caller is called."""

from __future__ import annotations

import pytest

from headrace.identity.caller import Caller, Role


@pytest.mark.parametrize("role", Role)
def test_only_the_providers_people_look_at_all_tenants(role):
    caller = Caller(role, "acme", "ann")
    assert caller.is_provider is role.startswith("provider")
    assert caller.author == "acme.ann"
