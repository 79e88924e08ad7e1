from __future__ import annotations

import json

import pytest

from headrace.contracts.facts.writers import WRITER_RULES
from headrace.contracts.schemas import generate


def test_the_checked_in_schemas_are_current(capsys: pytest.CaptureFixture[str]):
    assert generate.main(["--check"]) == 0, capsys.readouterr().err


def test_every_fact_has_a_schema_under_its_type():
    assert {f"facts/{generate.fact_type(rule.fact)}.json" for rule in WRITER_RULES} <= generate.generate().keys()


def test_checking_names_what_is_missing_changed_or_left(tmp_path, capsys: pytest.CaptureFixture[str]):
    folders = (tmp_path / "schemas", tmp_path / "api")
    assert generate.main([], *folders) == 0
    capsys.readouterr()
    assert generate.main(["--check"], *folders) == 0
    (folders[0] / "record.json").write_text("{}")
    (folders[0] / "asyncapi.json").unlink()
    (folders[0] / "facts" / "job.beamed.v1.json").write_text("{}")
    (folders[1] / "jobs_pb2.py").unlink()
    assert generate.main(["--check"], *folders) == 1
    assert capsys.readouterr().err.splitlines() == [
        "contracts/schemas/asyncapi.json is missing; run: make schemas",
        "contracts/schemas/facts/job.beamed.v1.json describes something that no longer exists; run: make schemas",
        "contracts/schemas/record.json is not current; run: make schemas",
        "contracts/headrace/contracts/api/jobs_pb2.py is missing; run: make schemas",
    ]
    assert generate.main([], *folders) == 0
    assert generate.main(["--check"], *folders) == 0


def test_the_bus_is_described_with_who_may_say_what():
    bus = json.loads(generate.generate()["asyncapi.json"])
    assert bus["channels"]["submit"]["address"] == "hr.submit.{tenant}.{user}.{policy}.{profile}"
    assert bus["channels"]["ledger"]["parameters"]["service"] == {
        "enum": ["admission", "allocator", "preemption", "governance", "audit", "provisioner"]
    }
    stated = {
        operation.removeprefix("state-as-"): {row["fact"] for row in body["x-laws"]}
        for operation, body in bus["operations"].items()
        if "x-laws" in body
    }
    assert stated == {
        rule.writer: {generate.fact_type(row.fact) for row in WRITER_RULES if row.writer == rule.writer}
        for rule in WRITER_RULES
    }


def test_every_reference_in_the_description_of_the_bus_leads_somewhere():
    bus = json.loads(generate.generate()["asyncapi.json"])

    def references(part):
        if isinstance(part, dict):
            for key, value in part.items():
                yield from [value] if key == "$ref" else references(value)
        elif isinstance(part, list):
            for element in part:
                yield from references(element)

    for reference in references(bus):
        part = bus
        for step in reference.removeprefix("#/").split("/"):
            part = part[step]
        assert part
