from __future__ import annotations

import pytest

from headrace.node_executor.devices import DevicesUnknown
from headrace.node_executor.devices.discovery import find_devices
from tests.mock_nvml import Machine


def test_simulated_ones_and_none_are_made_of_nothing() -> None:
    assert [len(find_devices(text).inventory()) for text in ("sim:8xH100-80GB", "none")] == [8, 0]


@pytest.mark.parametrize("text", ["auto", "nvml"])
def test_the_gpus_that_the_driver_shows_are_taken(machine: Machine, text: str) -> None:
    found = find_devices(text)
    assert [device.model for device in found.inventory()] == ["H100-80GB", "H100-80GB"]
    found.close()


def test_without_any_auto_is_content_with_none_and_who_names_a_kind_is_told(machine: Machine) -> None:
    machine.reset(0, driver="")
    assert find_devices("auto").inventory() == ()
    with pytest.raises(DevicesUnknown, match="NVML cannot be used: .*Driver Not Loaded"):
        find_devices("nvml")
    with pytest.raises(DevicesUnknown, match="amdsmi cannot be used"):
        find_devices("amd")


@pytest.mark.parametrize("text", ["", "8", "gpu", "NVML"])
def test_what_names_no_kind_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(DevicesUnknown, match="write auto, nvml, amd, none or sim:8xH100-80GB"):
        find_devices(text)
