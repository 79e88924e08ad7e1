"""Arrays: how they and parts of them are written, and sorted ranges of whole numbers as pairs (first, last), both included.

An array is written `0-499`, with a step `0-499:2`, with a bound on how many elements run at once `0-499%8`. A part of one is written as
indices and ranges of them: `17`, `0-9`, `0-9,20`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace.contracts.values.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

INDEX_MAX = 999_999
ELEMENTS_MAX = 100_000
PARTS_MAX = 100
"""Maximum number of ranges that name a part of an array."""

_ARRAY = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?(?::([0-9]{1,18}))?(?:%([0-9]{1,18}))?")
_PART = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")

Range = tuple[int, int]
Ranges = tuple[Range, ...]


class ArrayError(ValueError):
    """A malformed array or part of one; the message says how to write it."""


class ArrayRange(Value, frozen=True, kw_only=True):
    """The elements of an array: indices from `first` to `last`, every `step`-th. `at_once`: how many may run together; 0: no bound.

    Elements are numbered from 0 in the order of their indices.
    """

    first: int
    last: int
    step: int = 1
    at_once: int = 0

    @property
    def count(self) -> int:
        """How many elements the array has, from its first index to its last."""
        return (self.last - self.first) // self.step + 1

    def index(self, number: int) -> int:
        """The index of an element."""
        return self.first + number * self.step

    def number(self, index: int) -> int:
        """The number of an element by its index; -1 if the array has no such index."""
        number, rest = divmod(index - self.first, self.step)
        return number if not rest and 0 <= number < self.count else -1

    def numbers(self, indices: Ranges) -> Ranges:
        """The numbers of the elements with these indices; without indices, of all."""
        whole = ((0, self.count - 1),)
        if not indices:
            return whole
        found = ((-((self.first - first) // self.step), (last - self.first) // self.step) for first, last in indices)
        return common(whole, tuple((first, last) for first, last in found if first <= last))

    def indices(self, numbers: Ranges) -> Ranges:
        """The indices of elements; with a step, each range says from which to which."""
        return tuple((self.index(first), self.index(last)) for first, last in numbers)


def parse_array(text: str) -> ArrayRange:
    """The array that is written. Raises ArrayError."""
    match = _ARRAY.fullmatch(text)
    if match is None:
        raise ArrayError(f"{text[:40]!r} is not an array; write 0-499, 0-499:2 (every second) or 0-499%8 (at most 8 at once)")
    first = int(match[1])
    last, step, at_once = int(match[2] or first), int(match[3] or 1), int(match[4] or 0)
    if last < first or step < 1 or (match[4] is not None and at_once < 1):
        raise ArrayError(f"{text}: the first index is at most the last, and a step and a bound are at least 1")
    if max(last, step, at_once) > INDEX_MAX:
        raise ArrayError(f"{text}: an index, a step and a bound are at most {INDEX_MAX:,}")
    last -= (last - first) % step
    if (last - first) // step >= ELEMENTS_MAX:
        raise ArrayError(f"{text}: an array has at most {ELEMENTS_MAX:,} elements; submit several")
    return ArrayRange(first=first, last=last, step=step, at_once=at_once)


def parse_part(text: str) -> Ranges:
    """The ranges of indices that name a part of an array, sorted, none overlapping. Raises ArrayError."""
    found: list[Range] = []
    for written in text.split(","):
        match = _PART.fullmatch(written)
        first, last = (int(match[1]), int(match[2] or match[1])) if match is not None else (1, 0)
        if last < first:
            raise ArrayError(f"{text[:40]!r} is not a part of an array; write indices and ranges of them, such as 17 or 0-9,20")
        found.append((first, last))
    if len(found) > PARTS_MAX:
        raise ArrayError(f"a part of an array is at most {PARTS_MAX} ranges, this is {len(found)}")
    return merged(found)


def format_ranges(ranges: Iterable[Range]) -> str:
    """Ranges as people write them: `0-9,20`."""
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)


def merged(ranges: Iterable[Range]) -> Ranges:
    """The same numbers in as few ranges as possible, sorted."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def size(ranges: Iterable[Range]) -> int:
    """How many numbers are in ranges that do not overlap."""
    return sum(last - first + 1 for first, last in ranges)


def holds(ranges: Iterable[Range], number: int) -> bool:
    """Whether a number is in the ranges."""
    return any(first <= number <= last for first, last in ranges)


def common(ranges: Ranges, others: Ranges) -> Ranges:
    """Numbers that are in both."""
    return merged(
        (max(first, start), min(last, end))
        for first, last in ranges
        for start, end in others
        if max(first, start) <= min(last, end)
    )


def without(ranges: Ranges, others: Ranges) -> Ranges:
    """Numbers that are in `ranges` and not in `others`."""
    left = list(ranges)
    for start, end in others:
        parts: list[Range] = []
        for first, last in left:
            parts += [(first, min(last, start - 1)), (max(first, end + 1), last)]
        left = [(first, last) for first, last in parts if first <= last]
    return merged(left)


def format_array(array: ArrayRange, *, bound: bool = True) -> str:
    """An array as people write it: `0-499:2%8`; without its `bound` its indices alone."""
    step = f":{array.step}" if array.step > 1 else ""
    return f"{array.first}-{array.last}{step}" + (f"%{array.at_once}" if array.at_once and bound else "")
