from __future__ import annotations

from grpc import StatusCode

from headrace.governance.api.errors import Violation, invalid, not_found, shown


def test_a_fault_names_the_field_and_the_way_out():
    fault = invalid("queue", "write <policy>/<profile>")
    assert (fault.code, fault.reason, fault.message) == (
        StatusCode.INVALID_ARGUMENT,
        "INVALID",
        "queue: write <policy>/<profile>",
    )
    assert fault.violations == (Violation("queue", "write <policy>/<profile>"),)


def test_what_is_not_there_is_told_by_its_name_alone():
    fault = not_found("pool", "pools/x\n" + "y" * 500)
    assert fault.code is StatusCode.NOT_FOUND
    assert "\n" not in fault.message
    assert len(fault.message) < 200


def test_text_from_outside_is_cut_and_printable():
    assert shown("a\x00b\u202e") == "a b "
