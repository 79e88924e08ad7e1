from __future__ import annotations

import pytest

from headrace.contracts.values.money import format_money, millionths


@pytest.mark.parametrize(
    ("text", "amount", "shown"),
    [
        ("2.50", 2_500_000, "2.50"),
        ("0", 0, "0.00"),
        ("3", 3_000_000, "3.00"),
        ("0.000001", 1, "0.000001"),
        ("1.1234", 1_123_400, "1.1234"),
    ],
)
def test_money_is_exact_and_shown_with_two_decimals_at_least(text, amount, shown):
    assert (millionths(text), format_money(amount)) == (amount, shown)


def test_nothing_written_is_nothing_and_debts_have_a_sign():
    assert (millionths(""), format_money(-1_500_000)) == (0, "-1.50")
