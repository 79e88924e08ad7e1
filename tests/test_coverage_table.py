"""The table of coverage: lines by package, and the floor."""

from __future__ import annotations

import json

import pytest

from tests.coverage_table import by_package, main, table

REPORT = {
    "files": {
        "services/headrace/feed/service.py": {"summary": {"covered_lines": 30, "num_statements": 40}},
        "services/headrace/feed/orders.py": {"summary": {"covered_lines": 10, "num_statements": 10}},
        "contracts/headrace/contracts/facts/jobs.py": {"summary": {"covered_lines": 50, "num_statements": 50}},
    }
}


def test_lines_are_added_by_package():
    assert by_package(REPORT) == {"contracts": (50, 50), "feed": (40, 50)}
    assert table({"contracts": (50, 50), "feed": (40, 50)}).splitlines() == [
        "contracts             50 of     50 lines  100.0 %",
        "feed                  40 of     50 lines   80.0 %",
        "all                   90 of    100 lines   90.0 %",
    ]


@pytest.mark.parametrize(("run", "code"), [(80, 0), (79, 1)])
def test_less_than_the_floor_fails(tmp_path, run, code):
    file = tmp_path / "coverage.json"
    file.write_text(json.dumps({"files": {"a/headrace/feed/x.py": {"summary": {"covered_lines": run, "num_statements": 100}}}}))
    assert main(str(file), 80) == code
