from __future__ import annotations

import pytest

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.nodes import Device
from headrace.node_executor.devices import Devices, DevicesUnknown, Sample
from headrace.node_executor.devices.simulated import SimulatedDevices, simulated


def test_devices_are_numbered_through_and_have_the_memory_that_their_model_says() -> None:
    assert simulated("2xH100-80GB,1xL4").inventory() == (
        Device(device="gpu0", model="H100-80GB", memory=81920),
        Device(device="gpu1", model="H100-80GB", memory=81920),
        Device(device="gpu2", model="L4", memory=81920),
    )


def test_a_job_sees_the_numbers_of_its_devices_and_no_others() -> None:
    devices = simulated("4xH100-80GB")
    shares = (DeviceShare(device="gpu1", units=126_000), DeviceShare(device="gpu3", units=126_000))
    assert devices.environment(shares) == {"CUDA_VISIBLE_DEVICES": "1,3"}
    assert devices.environment(()) == {"CUDA_VISIBLE_DEVICES": ""}
    assert (devices.on_devices(), devices.samples(), devices.check_health(0), devices.busy_of(0)) == ({}, {}, {}, {})
    assert (devices.nodes(shares), devices.labels) == ((), {})


def test_devices_tell_the_load_that_they_were_given_and_others_tell_none() -> None:
    devices = simulated("1xH100-80GB+busy40,1xL4,1xH100-80GB+mig+busy0")
    assert devices.samples() == {"gpu0": Sample(40, 0), "gpu2": Sample(0, 0)}
    with pytest.raises(DevicesUnknown, match=r"1xL4\+busy101: busy is at most 100 percent"):
        simulated("1xL4+busy101")


@pytest.mark.parametrize("text", ["", "8", "xH100", "8xH100,", "8 H100", "-1xH100", "9999xH100"])
def test_what_names_no_devices_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(DevicesUnknown, match=r"write sim:8xH100-80GB|at most 1024"):
        simulated(text)


def test_they_have_the_whole_face_of_devices() -> None:
    promised = {name for name in vars(Devices) if not name.startswith("_")}
    assert {name for name in promised if not hasattr(SimulatedDevices, name)} == set()


def test_devices_in_mig_mode_are_seen_slice_by_slice() -> None:  # R4
    devices = simulated("1xH100-80GB+mig,1xL4")
    assert devices.inventory() == (
        Device(device="gpu0", model="H100-80GB", memory=81920, mig=True),
        Device(device="gpu1", model="L4", memory=81920),
    )
    share = DeviceShare(device="gpu0", units=63_000, mig="3g.40gb", start=4)
    assert devices.environment((share,)) == {"CUDA_VISIBLE_DEVICES": "MIG-sim-0-4-3g.40gb"}


def test_what_cannot_be_cut_is_refused() -> None:
    with pytest.raises(DevicesUnknown, match=r"L4 cannot be cut into MIG slices; write sim:8xH100-80GB\+mig"):
        simulated("4xL4+mig")


def test_a_device_that_is_here_no_more_is_left_out() -> None:
    gone = DeviceShare(device="gpu7", units=126_000)
    assert simulated("1xL4").environment((gone, DeviceShare(device="gpu0", units=126_000))) == {"CUDA_VISIBLE_DEVICES": "0"}
