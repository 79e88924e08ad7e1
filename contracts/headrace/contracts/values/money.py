"""Amounts of money: integers of millionths of the installation's currency, written with at most six decimals."""

from __future__ import annotations

MILLION = 1_000_000


def millionths(text: str) -> int:
    """`2.50` as an integer of millionths; 0 for an empty text. Documents have at most six decimals."""
    whole, _, decimals = text.partition(".")
    return int(whole or "0") * MILLION + int(decimals.ljust(6, "0") or "0")


def format_money(amount: int) -> str:
    """Millionths as people write them, with at least two decimals: `2.50`, `0.000001`."""
    whole, rest = divmod(abs(amount), MILLION)
    decimals = f"{rest:06}".rstrip("0").ljust(2, "0")
    return f"{'-' if amount < 0 else ''}{whole}.{decimals}"
