from __future__ import annotations

import json

import pytest

from headrace.contracts.schemas import protos


@pytest.fixture(scope="module")
def document():
    return json.loads(protos.written()[protos.OPENAPI])


def references(part):
    if isinstance(part, dict):
        for key, value in part.items():
            yield from [value] if key == "$ref" else references(value)
    elif isinstance(part, list):
        for element in part:
            yield from references(element)


def test_every_reference_leads_somewhere(document):
    known = document["components"]["schemas"]
    assert [one for one in references(document) if one.removeprefix("#/components/schemas/") not in known] == []


def test_every_schema_is_referred_to(document):
    used = {one.removeprefix("#/components/schemas/") for one in references(document)}
    assert document["components"]["schemas"].keys() - used == set()


def test_operations_have_names_of_their_own(document):
    names = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names))


def test_everything_is_explained(document):
    silent = [
        operation["operationId"]
        for path in document["paths"].values()
        for operation in path.values()
        if not operation["summary"]
    ]
    silent += [
        f"{name}.{field}"
        for name, schema in document["components"]["schemas"].items()
        for field, what in schema.get("properties", {}).items()
        if "description" not in what and name != "Error"
    ]
    assert silent == []


def test_parts_of_a_path_are_parameters_and_the_rest_is_the_query(document):
    operation = document["paths"]["/v1/tenants/{tenant}/queues/{policy}/{profile}"]["get"]
    assert [(one["name"], one["in"], one["required"]) for one in operation["parameters"]] == [
        ("tenant", "path", True),
        ("policy", "path", True),
        ("profile", "path", True),
        ("min_sequence", "query", False),
    ]


def test_a_body_leaves_out_what_stands_in_the_path_and_what_only_comes_out(document):
    operation = document["paths"]["/v1/tenants/{tenant}/policies/{policy}"]["patch"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    assert {"name", "sequence", "warnings", "closed"} & body["properties"].keys() == set()
    assert body["properties"]["reservation"]["additionalProperties"] == {"type": "string"}
    assert body["additionalProperties"] is False


def test_only_the_document_itself_the_page_and_its_login_need_no_token(document):
    free = [path for path, verbs in document["paths"].items() for one in verbs.values() if one.get("security") == []]
    assert (free, document["security"]) == (["/openapi.json", "/page", "/page/{file}", "/v1/login:redeem"], [{"bearer": []}])
