"""Amounts of resources: exact integers inside, text of people outside (R1).

Inside every amount is an integer: GPUs in units of 1/126,000 GPU, CPU in millicores, memory in MiB, every other key
plain. 126,000 is the smallest number that holds each three-decimal fraction, each 1/n for n <= 10, and 1/16 exactly,
so seven sevenths are one GPU. GPUs of one model (`gpu:H100-80GB`) are counted like all GPUs. Outside people write
`2`, `0.5`, `1/7`, `500m`, `64GiB`; inexact amounts are refused.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

Amounts = dict[str, int]
"""Key (`gpu`, `gpu:MODEL`, `cpu`, `memory`, `job`, or an administrator's own) to an integer in that key's unit."""

GPU: Final = "gpu"
_OF_MODEL: Final = "gpu:"
CPU: Final = "cpu"
MEMORY: Final = "memory"
JOB: Final = "job"
GPU_MEMORY: Final = "gpu_memory"
"""In the request of a profile or job, in place of `gpu`: MiB of GPU memory that each replica gets (R42). No key of a pool."""

GPU_UNITS: Final = 126_000
CPU_UNITS: Final = 1_000
AMOUNT_MAX = 2**53 - 1  # JSON readers in other languages lose digits above it

_NUMBER = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,18})|/([0-9]{1,9}))?")
_MEMORY = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([KMGTP]i?B?)?")
_MEMORY_IN_MIB = {"K": Fraction(1, 1024), "M": Fraction(1), "G": Fraction(1024), "T": Fraction(1024**2), "P": Fraction(1024**3)}
_EXAMPLE = {GPU: "2, 0.5 or 1/7", CPU: "2, 0.5 or 500m"}
_EXACT = {
    GPU: "a fraction of at most three decimals, or 1/n with n up to 10",
    CPU: "at most three decimals, or whole millicores",
}
_KEY = re.compile(r"[a-z][a-z0-9-]{0,62}(?:/[a-z0-9][a-z0-9.-]{0,62})?|gpu:[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class AmountError(ValueError):
    """A malformed, negative or inexact quantity; the message says how to write it."""


def is_key(text: str) -> bool:
    """True if `text` is a valid name of a resource, such as `gpu` or `license/abaqus`; in a request `gpu_memory` is one too."""
    return _KEY.fullmatch(text) is not None or text == GPU_MEMORY


def key_of_model(model: str) -> str:
    """The key of the GPUs of one model (R43): `gpu:H100-80GB`."""
    return _OF_MODEL + model


def model_of(key: str) -> str:
    """The GPU model of `gpu:H100-80GB`; empty for every other key."""
    return key[len(_OF_MODEL) :] if key.startswith(_OF_MODEL) else ""


def is_gpu(key: str) -> bool:
    """True for `gpu` and for the keys of GPU models, which are counted in the same unit."""
    return key == GPU or key.startswith(_OF_MODEL)


def without_models(amounts: Amounts) -> Amounts:
    """The amounts without the keys of GPU models, whose GPUs are among `gpu`."""
    return {key: amount for key, amount in amounts.items() if not model_of(key)}


def parse_amount(key: str, text: str | int) -> int:
    """The integer for `text` in the unit of `key`. Raises AmountError unless it is an exact, non-negative quantity."""
    written = str(text).strip()
    value = _parse_memory(written) if key in (MEMORY, GPU_MEMORY) else _parse_number(key, written)
    if value > AMOUNT_MAX:
        raise AmountError(f"{written} is too large for {key}")
    return value


def _parse_number(key: str, written: str) -> int:
    millicores = key == CPU and written.endswith("m")
    unit = 1 if millicores else _unit(key)
    match = _NUMBER.fullmatch(written.removesuffix("m") if millicores else written)
    if match is None or (match[3] and not int(match[3])):
        raise AmountError(
            f"invalid amount of {key} {written[:80]!r}: use a number such as {_EXAMPLE.get(GPU if is_gpu(key) else key, '2')}"
        )
    exact = Fraction(match[0]) * unit
    if exact.denominator != 1:
        raise AmountError(f"{written} {key} is not exact; write {_EXACT.get(GPU if is_gpu(key) else key, 'a whole number')}")
    return exact.numerator


def _unit(key: str) -> int:
    return GPU_UNITS if is_gpu(key) else CPU_UNITS if key == CPU else 1


def _parse_memory(written: str) -> int:
    match = _MEMORY.fullmatch(written)
    if match is None:
        raise AmountError(f"invalid amount of memory {written[:80]!r}: use 64GiB or 512MiB")
    if match[2] is None and Fraction(match[1]) != 0:
        raise AmountError(f"memory {written} has no unit; write {written}MiB or {written}GiB")
    if match[2] is not None and match[2] in ("KB", "MB", "GB", "TB", "PB"):
        raise AmountError(f"memory is counted in powers of 1024; write {match[1]}{match[2][0]}iB")
    exact = Fraction(match[1]) * _MEMORY_IN_MIB[(match[2] or "M")[0]]
    if exact.denominator != 1:
        raise AmountError(f"memory {written} is not exact; write a whole number of MiB")
    return exact.numerator


def format_amount(key: str, value: int) -> str:
    """The text for `value` as people write it: `0.5`, `1/7`, `64GiB`. The inverse of `parse_amount`."""
    if value < 0:
        return "-" + format_amount(key, -value)
    if key in (MEMORY, GPU_MEMORY):
        for suffix, size in (("TiB", 1024**2), ("GiB", 1024)):
            if value and value % size == 0:
                return f"{value // size}{suffix}"
        return f"{value}MiB"
    exact = Fraction(value, _unit(key))
    if exact.denominator == 1:
        return str(exact.numerator)
    if 1000 % exact.denominator == 0:
        thousandths = exact * 1000
        return f"{thousandths.numerator // 1000}.{thousandths.numerator % 1000:03d}".rstrip("0")
    return f"{exact.numerator}/{exact.denominator}"


def format_amounts(amounts: Amounts) -> str:
    """Amounts as text, sorted by key: `cpu 4, gpu 3`; `nothing` if empty."""
    return ", ".join(f"{key} {format_amount(key, value)}" for key, value in sorted(amounts.items())) or "nothing"


def gpus_first(amounts: Amounts) -> list[tuple[str, int]]:
    """Pairs of key and amount: `gpu` first, then the others by name."""
    return sorted(amounts.items(), key=lambda item: (item[0] != GPU, item[0]))


def plus(left: Amounts, right: Amounts) -> Amounts:
    """The sum per key, a new dict; keys with sum zero are omitted."""
    return {key: total for key in {**left, **right} if (total := left.get(key, 0) + right.get(key, 0))}


def add_to(total: Amounts, amounts: Amounts) -> None:
    """Add `amounts` to `total` in place."""
    for key, value in amounts.items():
        total[key] = total.get(key, 0) + value


def take_from(total: Amounts, amounts: Amounts) -> None:
    """Subtract `amounts` from `total` in place; keys that reach zero are removed, so that equal states compare equal."""
    for key, value in amounts.items():
        left = total.get(key, 0) - value
        if left:
            total[key] = left
        else:
            total.pop(key, None)


def times(amounts: Amounts, count: int) -> Amounts:
    """`count` times `amounts`, a new dict."""
    return {key: value * count for key, value in amounts.items()}
