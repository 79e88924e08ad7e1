"""What holds for every test: Hypothesis finds the same examples in every run, a busy machine is not a failure, and a process' logging
configuration that a test has set up goes with the test."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import cast

import pytest
import structlog
from hypothesis import settings

from tests import second_nvml
from tests.mock_nvml import Machine, build, compiler
from tests.replacing import CheckedPatch

settings.register_profile("headrace", deadline=None, derandomize=True, database=None)
settings.load_profile("headrace")


TEMPORARY = "PYTEST_DEBUG_TEMPROOT"

SLOWEST = (
    *("tests/integration/test_chaos_burst.py", "tests/integration/test_ai_dev.py"),
    *("tests/end_to_end/test_tutorials.py", "tests/integration/test_attacks_jobs.py", "tests/integration/test_lost_stores.py"),
    *("tests/integration/test_tls.py", "tests/integration/test_crash.py", "tests/end_to_end/", "tests/integration/test_up.py"),
    *("tests/page/", "tests/integration/test_archive.py", "tests/integration/test_cluster.py"),
    *("tests/simulation/", "tests/properties/test_histories.py", "tests/properties/test_snapshots.py", "tests/properties/"),
)
"""Files and folders of files that take longest, the longest first; the others are played in the order of their names."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Play the slowest files first: a worker of `make test` plays whole files, and at the end all of them should be done together."""
    items.sort(key=lambda item: _rank(item.nodeid))


def _rank(node_id: str) -> int:
    return next((rank for rank, start in enumerate(SLOWEST) if node_id.startswith(start)), len(SLOWEST))


def pytest_configure(config: pytest.Config) -> None:
    """Give each session of root a temporary root of its own, also one that a test of another session starts.

    Jobs of an installation that root started run under other accounts, which have to reach its directory; pytest closes a root that
    sessions share whenever another session begins.
    """
    if os.geteuid() == 0 and not hasattr(config, "workerinput"):
        above = os.environ.get(TEMPORARY)
        os.environ[TEMPORARY] = made = tempfile.mkdtemp(prefix="headrace-tests-", dir=above)
        config.add_cleanup(lambda: shutil.rmtree(made, ignore_errors=True))


@pytest.fixture(autouse=True)
def _logging_as_it_was() -> Iterator[None]:
    yield
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
