from __future__ import annotations

import re

from headrace.contracts.schemas import protocol


def method(name):
    return next(found for found in protocol.methods() if found.name == name)


def test_every_method_can_be_called_over_http():
    assert [found.name for found in protocol.methods() if not protocol.bindings(found)] == []


def test_no_two_methods_share_a_path_and_verb():
    ways = [(one.verb, one.pattern) for found in protocol.methods() for one in protocol.bindings(found)]
    assert len(ways) == len(set(ways))


def test_a_binding_tells_its_variables_and_its_pattern():
    (one,) = protocol.bindings(method("GetQueue"))
    assert (one.verb, one.body, one.variables) == ("get", "", (("name", "tenants/*/queues/*/*"),))
    assert re.fullmatch(one.pattern, "/v1/tenants/acme/queues/ai-dev/half")
    assert not re.fullmatch(one.pattern, "/v1/tenants/acme/queues/ai-dev")


def test_a_custom_method_is_not_a_resource():
    (get,) = protocol.bindings(method("GetJob"))
    (cancel,) = protocol.bindings(method("CancelJob"))
    path = "/v1/tenants/acme/jobs/01k:cancel"
    assert re.fullmatch(cancel.pattern, path)
    assert not re.fullmatch(get.pattern, path)


def test_profiles_are_the_providers_or_a_tenants():
    assert [one.path for one in protocol.bindings(method("GetProfile"))] == [
        "/v1/{name=profiles/*}",
        "/v1/{name=tenants/*/profiles/*}",
    ]


def test_a_method_is_named_as_grpc_names_it():
    assert protocol.path_of(method("WatchJobs")) == "/headrace.v1.Jobs/WatchJobs"


def test_every_file_stands_behind_those_that_it_imports():
    seen = set()
    for file in protocol.descriptors().file:
        assert set(file.dependency) <= seen
        seen.add(file.name)
    assert {"headrace/v1/jobs.proto", "google/rpc/error_details.proto"} <= seen
