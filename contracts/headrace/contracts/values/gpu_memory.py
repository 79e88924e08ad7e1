"""GPU memory: what a share of a GPU gives of it, the smallest share that gives so much (R42), and what names of models say. In MiB."""

from __future__ import annotations

import re
from collections.abc import Iterable

from headrace.contracts.values.amounts import GPU, GPU_MEMORY, GPU_UNITS, format_amount
from headrace.contracts.values.value import Value

RESERVED = 1_024
"""Reserved on every shared GPU, for the driver and the servers that share it."""

THOUSANDTH = GPU_UNITS // 1_000
EQUAL_PARTS = tuple(GPU_UNITS // parts for parts in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16))
"""Shares that are written `1/n` (R1)."""

DECIMAL_GIGABYTE, MEBIBYTE = 10**9, 2**20

_GIGABYTES = re.compile(r"-(\d{1,4})GB$")


class ModelShare(Value, frozen=True, kw_only=True):
    """What each replica gets of GPUs of this model, in units: GPUs, a share of one (R42), or the slice `mig` with its charge."""

    model: str
    gpu: int
    mig: str = ""


def memory_of_share(memory: int, units: int) -> int:
    """What `units` of a GPU with `memory` give: of a whole one all, else their part of what is not reserved."""
    return memory if units >= GPU_UNITS else max(0, memory - RESERVED) * units // GPU_UNITS


def share_with(memory: int, asked: int) -> int | None:
    """The smallest share of a GPU with `memory` that gives at least `asked`, in units; None if the whole GPU does not.

    A share is one that people can write (R1): thousandths, or one of equal parts.
    """
    if asked > memory:
        return None
    least = -(-asked * GPU_UNITS // max(1, memory - RESERVED))
    thousandths = max(1, -(-least // THOUSANDTH)) * THOUSANDTH
    return min([units for units in (thousandths, *EQUAL_PARTS) if least <= units <= GPU_UNITS], default=GPU_UNITS)


def gigabytes_in_name(model: str) -> int:
    """The number before `GB` at the end of a model's name, such as 80 of `H100-80GB`; 0 without one."""
    found = _GIGABYTES.search(model)
    return int(found[1]) if found else 0


def least_by_name(model: str) -> int:
    """What GPUs of a model have at the least by its name: gigabytes of 10^9 bytes. 0 if the name has no size."""
    return gigabytes_in_name(model) * DECIMAL_GIGABYTE // MEBIBYTE


def memory_text(memory: int, shares: Iterable[ModelShare]) -> str:
    """`20GiB of GPU memory: 0.254 of H100-80GB, or 0.513 of A100-40GB`; without memory `gpu: 2 of H100-80GB, or 2 of A100-40GB`."""
    each = (f"{format_amount(GPU, one.gpu)} of {one.model}" + (f" (slice {one.mig})" if one.mig else "") for one in shares)
    asked = f"{format_amount(GPU_MEMORY, memory)} of GPU memory" if memory else GPU
    return f"{asked}: {', or '.join(each)}"
