from __future__ import annotations

import pytest

from headrace.contracts.values.mig import family_of
from headrace.node_executor.devices.names import model_name, short_names


@pytest.mark.parametrize(
    ("product", "memory", "name"),
    [
        ("NVIDIA H100 80GB HBM3", 81_559, "H100-80GB"),
        ("NVIDIA H100 NVL", 95_830, "H100-94GB"),
        ("NVIDIA H200", 143_771, "H200-141GB"),
        ("NVIDIA A100-SXM4-40GB", 40_960, "A100-40GB"),
        ("NVIDIA A100-PCIE-80GB", 81_920, "A100-80GB"),
        ("NVIDIA B200", 183_359, "B200-180GB"),
        ("NVIDIA GH200 480GB", 97_871, "GH200-480GB"),
        ("Tesla T4", 15_360, "T4-16GB"),
        ("NVIDIA L40S", 46_068, "L40S-48GB"),
        ("NVIDIA GeForce RTX 4090", 24_564, "RTX-4090-24GB"),
        ("NVIDIA A30", 24_576, "A30-24GB"),
        ("AMD Instinct MI300X", 196_592, "MI300X-192GB"),
        ("", 300 * 1024, "GPU-300GB"),
    ],
)
def test_a_model_is_called_by_its_chip_and_the_memory_it_is_sold_with(product: str, memory: int, name: str) -> None:
    assert model_name(product, memory) == name


@pytest.mark.parametrize("product", ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-PCIE-80GB"])
def test_a_name_is_enough_to_know_how_it_is_cut(product: str) -> None:
    assert family_of(model_name(product, 81_559)) == family_of(product, 81_559)


def test_a_device_is_called_by_the_beginning_of_its_uuid_where_that_is_enough() -> None:
    one, other = "GPU-a1b2c3d4-0000-4000-8000-000000000000", "GPU-a1b2c3d5-0000-4000-8000-000000000000"
    assert short_names([one, other]) == {one: "GPU-a1b2c3d4", other: "GPU-a1b2c3d5"}
    like = "GPU-a1b2c3d4-0000-4000-8000-000000000001"
    assert short_names([one, like]) == {one: one, like: like}
