"""What holds for every test: Hypothesis finds the same examples in every run, a busy machine is not a failure, and a process' logging
configuration that a test has set up goes with the test."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import cast

import pytest
import structlog
from hypothesis import settings

from tests import second_nvml
from tests.mock_nvml import Machine, build, compiler
from tests.properties.campaign import examples
from tests.replacing import CheckedPatch

settings.register_profile("headrace", max_examples=examples(100), deadline=None, derandomize=True, database=None)
settings.load_profile("headrace")


TEMPORARY = "PYTEST_DEBUG_TEMPROOT"

SLOWEST = (
    *("tests/page/test_page.py", "tests/integration/test_accounting.py", "tests/page/test_stories.py", "tests/end_to_end/"),
    *("tests/integration/failures/test_lost_stores.py", "tests/integration/failures/test_chaos_burst.py"),
    *("tests/integration/test_bursting.py", "tests/integration/test_up.py", "tests/integration/test_tls.py", "tests/page/"),
    *("tests/simulation/test_simulation.py", "tests/integration/", "tests/unit/node_executor/runtimes/test_container.py"),
    *("tests/simulation/", "tests/properties/", "tests/unit/provisioner/"),
)
"""Files and folders of files that take longest, the longest first; the others are played in the order of their names."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let no search for garbage go through all modules and tests, neither while they are collected nor while they are played."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Play the slowest files first: a worker of `make test` plays whole files, and at the end all of them should be done together."""
    items.sort(key=lambda item: _rank(item.nodeid))


def _rank(node_id: str) -> int:
    return next((rank for rank, start in enumerate(SLOWEST) if node_id.startswith(start)), len(SLOWEST))


MEMORY, FREE_LEAST = Path("/dev/shm"), 4 << 30
"""Where Linux keeps files in memory, and how many bytes of it have to be free for the installations of tests."""


def pytest_configure(config: pytest.Config) -> None:
    """Give each session a temporary directory of its own, in memory if there is room and `TMPDIR` names no other place.

    A new installation makes a thousand files, which takes a second on some disks. Sessions of root share none, also those that a test of
    another session starts: jobs of an installation that root started run under other accounts, which have to reach its directory, and
    pytest closes one that sessions share whenever another session begins.
    """
    if hasattr(config, "workerinput"):
        return
    if "TMPDIR" not in os.environ and MEMORY.is_dir():
        found = os.statvfs(MEMORY)
        if found.f_bavail * found.f_frsize >= FREE_LEAST and not found.f_flag & os.ST_NOEXEC:
            os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
    above = os.environ.get(TEMPORARY)
    # short, because the path of a socket has at most 107 bytes
    os.environ[TEMPORARY] = made = tempfile.mkdtemp(prefix="hr-", dir=above)
    config.add_cleanup(lambda: shutil.rmtree(made, ignore_errors=True))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """A fixture for every test would take a second for all of them."""
    structlog.reset_defaults()


@pytest.fixture
def monkeypatch() -> Iterator[CheckedPatch]:
    """pytest's own, which fails where the product does not use what is put in place of one of its pieces (`replacing`)."""
    patch = CheckedPatch()
    yield patch
    patch.undo()
    assert patch.never_called() == []


@pytest.fixture(scope="session")
def mock_machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """The one machine with mock GPUs of this process: libraries are loaded once, and so is the state they map."""
    if compiler() is None:
        pytest.skip("the mock of NVML is built by a C compiler, and there is none")
    if os.environ.get(second_nvml.CHOICE) == "second":
        libraries = second_nvml.build(tmp_path_factory.mktemp("second_nvml"))
        return cast("Machine", second_nvml.SecondMachine(libraries, tmp_path_factory.mktemp("second_state") / "state"))
    return Machine(build(tmp_path_factory.mktemp("mock_nvml")), tmp_path_factory.mktemp("mock_state") / "state")


@pytest.fixture
def machine(mock_machine: Machine) -> Machine:
    """A machine with two H100 of the mock, as new."""
    mock_machine.reset()
    return mock_machine


@pytest.fixture
def no_gpus(machine: Machine) -> None:
    """A machine that has none."""
    machine.reset(0, driver="")
