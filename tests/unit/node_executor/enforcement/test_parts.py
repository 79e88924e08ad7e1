from __future__ import annotations

import pytest

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.gpu_memory import RESERVED
from headrace.node_executor.enforcement.parts import LEAST, from_within, overrun_at, part_of, threads

H100 = 81_559


@pytest.mark.parametrize("parts", [2, 3, 7, 10, 16])
def test_all_parts_of_a_gpu_together_leave_what_is_reserved(parts: int) -> None:
    assert parts * part_of(H100, GPU_UNITS // parts) <= H100 - RESERVED


def test_the_whole_of_it_is_the_whole() -> None:
    assert part_of(H100, GPU_UNITS) == H100
    assert part_of(H100, GPU_UNITS // 2) == 40_267


def test_a_fence_inside_the_process_lets_less_through_and_never_nothing() -> None:
    assert (from_within(40_267), from_within(100), part_of(H100, 1)) == (39_627, LEAST, LEAST)


def test_an_overrun_is_more_than_a_little() -> None:
    assert (overrun_at(1_000), overrun_at(40_000)) == (1_256, 40_800)


@pytest.mark.parametrize(("units", "percent"), [(1, 1), (GPU_UNITS // 3, 33), (GPU_UNITS // 2, 50), (GPU_UNITS, 100)])
def test_a_part_keeps_its_share_of_the_multiprocessors_busy(units: int, percent: int) -> None:
    assert threads(units) == percent
