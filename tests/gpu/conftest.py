"""Checks for a machine with real NVIDIA GPUs: `pytest tests/gpu -s`. Nothing of the machine's settings is changed, MIG least of all."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.devices.nvml_library import Nvml, NvmlError
from headrace.node_executor.enforcement.preload import PreloadMechanism
from headrace.node_executor.system import native
from headrace.node_executor.system.c_programs import LIBRARY, MEMORY_CAP


@pytest.fixture(scope="session")
def devices() -> Iterator[NvmlDevices]:
    """The GPUs of this machine; without any the checks are skipped."""
    if "MOCK_NVML_STATE" in os.environ and "HEADRACE_CHECK_THE_CHECKS" not in os.environ:
        pytest.skip("the mock of NVML is loaded in this process: run these checks by themselves")
    try:
        found = NvmlDevices(Nvml())
    except NvmlError as error:
        pytest.skip(f"there is no NVIDIA driver here: {error}")
    if not found.names:
        pytest.skip("there is no NVIDIA GPU here")
    yield found
    found.close()


@pytest.fixture(scope="session")
def gpu(devices: NvmlDevices) -> str:
    """The GPU that the checks use: the least_used that is not in MIG mode, with little memory used by others."""
    name = devices.least_used
    if not name:
        pytest.skip("every GPU here is in MIG mode")
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        pytest.skip(f"libcuda is not here: {error}")
    if devices.samples()[name].memory > 4_096:
        pytest.skip(f"somebody uses {name}")
    return name


@pytest.fixture(scope="session")
def cap(devices: NvmlDevices, tmp_path_factory: pytest.TempPathFactory) -> PreloadMechanism:
    """The cap from within, built here."""
    place = tmp_path_factory.mktemp("native")
    library = native.built(MEMORY_CAP, str(place), LIBRARY)
    if not library:
        pytest.skip("there is no C compiler")
    return PreloadMechanism(devices, library, str(place))


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str, object], None]:
    """Prints a figure for RESULTS.md."""

    def write(name: str, value: object) -> None:
        sys.stdout.write(f"\nFIGURE | {request.node.name} | {name} | {value} |\n")

    return write


@pytest.fixture
def control(tmp_path: Path) -> Callable[[str], str]:
    """Makes control directories for leases."""

    def make(lease: str) -> str:
        path = tmp_path / lease.replace("/", ".")
        path.mkdir()
        return str(path)

    return make
