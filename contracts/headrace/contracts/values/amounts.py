"""Amounts: exact integers inside, what people write outside (R1).

Inside every amount is an integer: GPUs in units of 1/126,000 GPU, CPU in millicores, memory in MiB, every other key
plain. 126,000 is the smallest number that holds each three-decimal fraction, each 1/n for n <= 10, and 1/16 exactly,
so seven sevenths are one GPU. Outside people write `2`, `0.5`, `1/7`, `500m`, `64GiB`; what is not exact is refused.
"""

from __future__ import annotations

import re
from fractions import Fraction

Amounts = dict[str, int]
"""Key (`gpu`, `cpu`, `memory`, `job`, or an administrator's own) to an integer in that key's unit."""

GPU = "gpu"
CPU = "cpu"
MEMORY = "memory"
JOB = "job"

GPU_UNITS = 126_000
CPU_UNITS = 1_000
AMOUNT_MAX = 2**53 - 1  # beyond it JSON readers in other languages lose digits

_NUMBER = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18})|/([0-9]{1,9}))?")
_MEMORY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([KMGTP]i?B?)?")
_MEMORY_IN_MIB = {"K": Fraction(1, 1024), "M": Fraction(1), "G": Fraction(1024), "T": Fraction(1024**2), "P": Fraction(1024**3)}
_EXAMPLE = {GPU: "2, 0.5 or 1/7", CPU: "2, 0.5 or 500m"}
_EXACT = {
    GPU: "a fraction of at most three decimals, or 1/n with n up to 10",
    CPU: "at most three decimals, or whole millicores",
}
_KEY = re.compile(r"[a-z][a-z0-9-]{0,62}(?:/[a-z0-9][a-z0-9.-]{0,62})?")


class AmountError(ValueError):
    """A quantity that is not one, or not exact; the message says how to write it."""


def is_key(text: str) -> bool:
    """Whether `text` may name a resource: `gpu`, `license/abaqus`."""
    return _KEY.fullmatch(text) is not None


def parse_amount(key: str, text: str | int) -> int:
    """The integer for `text` in the unit of `key`; `AmountError` where it is no exact, non-negative quantity."""
    written = str(text).strip()
    value = _parse_memory(written) if key == MEMORY else _parse_number(key, written)
    if value > AMOUNT_MAX:
        raise AmountError(f"{written} is too large for {key}")
    return value


def _parse_number(key: str, written: str) -> int:
    millicores = key == CPU and written.endswith("m")
    unit = 1 if millicores else {GPU: GPU_UNITS, CPU: CPU_UNITS}.get(key, 1)
    match = _NUMBER.fullmatch(written.removesuffix("m") if millicores else written)
    if match is None or (match[3] and not int(match[3])):
        raise AmountError(f"{written[:80]!r} is no amount of {key}; write a number such as {_EXAMPLE.get(key, '2')}")
    exact = Fraction(match[0]) * unit
    if exact.denominator != 1:
        raise AmountError(f"{written} {key} is not exact; write {_EXACT.get(key, 'a whole number')}")
    return exact.numerator


def _parse_memory(written: str) -> int:
    match = _MEMORY.fullmatch(written)
    if match is None:
        raise AmountError(f"{written[:80]!r} is no amount of memory; write 64GiB or 512MiB")
    if match[2] is None and Fraction(match[1]) != 0:
        raise AmountError(f"memory {written} has no unit; write {written}MiB or {written}GiB")
    if match[2] is not None and match[2] in ("KB", "MB", "GB", "TB", "PB"):
        raise AmountError(f"memory is counted in powers of 1024; write {match[1]}{match[2][0]}iB")
    exact = Fraction(match[1]) * _MEMORY_IN_MIB[(match[2] or "M")[0]]
    if exact.denominator != 1:
        raise AmountError(f"memory {written} is no whole number of MiB")
    return exact.numerator


def format_amount(key: str, value: int) -> str:
    """What a person would have written for `value`: `0.5`, `1/7`, `64GiB`. The inverse of `parse_amount`."""
    if value < 0:
        return "-" + format_amount(key, -value)
    if key == MEMORY:
        for suffix, size in (("TiB", 1024**2), ("GiB", 1024)):
            if value and value % size == 0:
                return f"{value // size}{suffix}"
        return f"{value}MiB"
    unit = {GPU: GPU_UNITS, CPU: CPU_UNITS}.get(key, 1)
    exact = Fraction(value, unit)
    if exact.denominator == 1:
        return str(exact.numerator)
    if 1000 % exact.denominator == 0:
        thousandths = exact * 1000
        return f"{thousandths.numerator // 1000}.{thousandths.numerator % 1000:03d}".rstrip("0")
    return f"{exact.numerator}/{exact.denominator}"


def format_amounts(amounts: Amounts) -> str:
    """`gpu 3, cpu 4`, keys in order; `nothing` where there are none."""
    return ", ".join(f"{key} {format_amount(key, value)}" for key, value in sorted(amounts.items())) or "nothing"


def gpus_first(amounts: Amounts) -> list[tuple[str, int]]:
    """Key by key in one order, whatever the dict's: GPUs, which one asks about, then the others by name."""
    return sorted(amounts.items(), key=lambda item: (item[0] != GPU, item[0]))


def plus(left: Amounts, right: Amounts) -> Amounts:
    """Key by key sum, a new dict; keys that come to zero go."""
    return {key: total for key in {**left, **right} if (total := left.get(key, 0) + right.get(key, 0))}


def add_to(total: Amounts, amounts: Amounts) -> None:
    """Add `amounts` into `total`, in place."""
    for key, value in amounts.items():
        total[key] = total.get(key, 0) + value


def take_from(total: Amounts, amounts: Amounts) -> None:
    """Subtract `amounts` from `total`, in place; keys that reach zero go, so that equal states look equal."""
    for key, value in amounts.items():
        left = total.get(key, 0) - value
        if left:
            total[key] = left
        else:
            total.pop(key, None)


def times(amounts: Amounts, count: int) -> Amounts:
    """`count` times `amounts`, a new dict."""
    return {key: value * count for key, value in amounts.items()}
