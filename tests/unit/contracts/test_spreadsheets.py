from __future__ import annotations

import pytest

from headrace.contracts.spreadsheets import cell


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-"])
def test_what_a_spreadsheet_would_calculate_stands_behind_an_apostrophe(text):
    assert cell(text) == f"'{text}"


@pytest.mark.parametrize("text", ["", "ann", "2026-11", "-1.500000", "+3", "0.5", "a=b"])
def test_names_and_numbers_stay_as_they_are(text):
    assert cell(text) == text
