from __future__ import annotations

import pytest

from headrace.contracts.values.amounts import GPU, GPU_UNITS, format_amount, parse_amount
from headrace.contracts.values.gpu_memory import RESERVED, ModelShare, least_by_name, memory_of_share, memory_text, share_with

GIB = 1024


@pytest.mark.parametrize(
    ("memory", "asked", "share"),
    [
        (80 * GIB, 20 * GIB, "0.254"),
        (80 * GIB, 20 * GIB - 256, "0.25"),
        (80 * GIB, 79 * GIB // 3, "1/3"),
        (40 * GIB, 20 * GIB, "0.513"),
        (80 * GIB, 79 * GIB, "1"),
        (80 * GIB, 80 * GIB, "1"),
        (80 * GIB, 1, "0.001"),
        (512, 512, "1"),
        (512, 1, "1"),
    ],
)
def test_the_share_is_the_smallest_that_can_be_written_and_gives_the_memory(memory, asked, share):
    assert format_amount(GPU, share_with(memory, asked)) == share


def test_a_gpu_that_is_too_small_has_no_share():
    assert share_with(40 * GIB, 40 * GIB + 1) is None


@pytest.mark.parametrize("memory", [512, 15_360, 23_034, 40_960, 81_559, 143_771])
def test_no_smaller_share_that_can_be_written_gives_as_much(memory):
    written = {parse_amount(GPU, f"{number}/1000") for number in range(1, 1_001)}
    written |= {parse_amount(GPU, f"1/{parts}") for parts in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16)}
    for asked in range(1, memory + 1, memory // 97):
        enough = [units for units in written if memory_of_share(memory, units) >= asked]
        assert share_with(memory, asked) == min(enough)


def test_a_whole_gpu_gives_all_of_its_memory_and_a_part_its_part_of_what_is_not_reserved():
    assert memory_of_share(81_920, GPU_UNITS) == 81_920
    assert memory_of_share(81_920, GPU_UNITS // 2) == (81_920 - RESERVED) // 2


def test_a_name_promises_gigabytes_of_ten_to_the_ninth_bytes():
    assert [least_by_name(model) for model in ("H100-80GB", "A100-40GB", "T4", "80GB-card")] == [76_293, 38_146, 0, 0]


def test_the_text_names_each_share():
    shares = (ModelShare(model="H100-80GB", gpu=63_000, mig="3g.40gb"), ModelShare(model="A100-40GB", gpu=126_000))
    assert memory_text(30 * GIB, shares) == "30GiB of GPU memory: 0.5 of H100-80GB (slice 3g.40gb), or 1 of A100-40GB"
