"""AMD's GPUs behind the face of all devices; the library is one made up here, with the functions and answers of amdsmi 7."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.nodes import Device
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices import Devices, DevicesUnknown, OnDevice, Sample
from headrace.node_executor.devices.amd import AmdDevices, amd_library
from headrace.node_executor.devices.health import QUIET, Trouble

UUIDS = ("a0ff74a1-0000-1000-80ff-000000000000", "a0ff74a1-0000-1000-80ff-000000000001")


class AmdSmiException(Exception):
    pass


class Library(SimpleNamespace):
    """Two MI300X. `silent`: calls that the driver does not know, by (name, GPU)."""

    AmdSmiException = AmdSmiException
    AmdSmiInitFlags = SimpleNamespace(INIT_AMD_GPUS=2)

    def __init__(self) -> None:
        super().__init__(silent=set(), errors=[0, 0], began=[], ended=0)

    def __getattr__(self, name: str) -> Any:
        answers = {
            "amdsmi_get_gpu_asic_info": lambda _: {"market_name": "AMD Instinct MI300X"},
            "amdsmi_get_gpu_vram_usage": lambda gpu: {"vram_total": 196_592, "vram_used": 100 * gpu},
            "amdsmi_get_gpu_enumeration_info": lambda gpu: {"drm_render": 128 + 8 * gpu},
            "amdsmi_get_gpu_device_uuid": UUIDS.__getitem__,
            "amdsmi_get_gpu_process_list": lambda gpu: [{"pid": 7, "mem": 2**30}] if gpu else [],
            "amdsmi_get_gpu_activity": lambda gpu: {"gfx_activity": 60 if gpu else "N/A"},
            "amdsmi_get_gpu_total_ecc_count": lambda gpu: {"uncorrectable_count": self.errors[gpu]},
        }
        if name not in answers:
            raise AttributeError(name)

        def call(gpu: int) -> Any:
            if (name, gpu) in self.silent:
                raise AmdSmiException("not supported")
            return answers[name](gpu)

        call.__name__ = name
        return call

    def amdsmi_init(self, flags: int) -> None:
        self.began.append(flags)

    def amdsmi_get_processor_handles(self) -> list[int]:
        return [0, 1]

    def amdsmi_shut_down(self) -> None:
        self.ended += 1


def test_they_have_the_whole_face_of_devices() -> None:
    promised = {name for name in vars(Devices) if not name.startswith("_")}
    assert {name for name in promised if not hasattr(AmdDevices, name)} == set()


def test_the_library_is_begun_and_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library()
    monkeypatch.setitem(sys.modules, "amdsmi", library)
    devices = AmdDevices(amd_library())
    devices.close()
    assert (library.began, library.ended) == ([2], 1)


def test_without_the_driver_it_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    with pytest.raises(DevicesUnknown, match="is ROCm installed here"):
        amd_library()


def test_what_is_there_is_listed_seen_and_watched() -> None:
    devices = AmdDevices(Library(), lambda: 0)
    first, second = UUIDS
    assert devices.inventory() == (
        Device(device=first, model="MI300X-192GB", memory=196_592),
        Device(device=second, model="MI300X-192GB", memory=196_592),
    )
    assert devices.labels == {"gpu.vendor": "amd", "gpu.model": "MI300X-192GB"}
    share = DeviceShare(device=second, units=GPU_UNITS)
    assert devices.environment((share,)) == {"ROCR_VISIBLE_DEVICES": "1"}
    assert (devices.nodes((share,)), devices.nodes(())) == (("/dev/dri/renderD136", "/dev/kfd"), ())
    gone = DeviceShare(device="gone", units=GPU_UNITS)
    assert (devices.environment((gone,)), devices.nodes((gone,))) == ({"ROCR_VISIBLE_DEVICES": ""}, ("/dev/kfd",))
    assert devices.on_devices() == {first: [], second: [OnDevice(7, 1024)]}
    assert devices.samples() == {first: Sample(None, 0), second: Sample(60, 100)}


def test_new_errors_and_silence_drain_a_device_and_it_returns() -> None:
    library = Library()
    devices = AmdDevices(library, lambda: 0)
    library.errors[1] = 2
    assert devices.check_health(1) == {UUIDS[1]: Trouble("ecc", 2, "2 uncorrectable errors in its memory")}
    assert devices.check_health(1 + QUIET) == {UUIDS[1]: None}
    library.silent = {("amdsmi_get_gpu_total_ecc_count", 0), ("amdsmi_get_gpu_device_uuid", 0)}
    assert devices.check_health(2 + QUIET) == {UUIDS[0]: Trouble("lost", 0, "the driver has lost it")}
