"""The shape of the tests: what several of them use lies beside them, in a module of its own or in `conftest`."""

from __future__ import annotations

from tests.architecture.tree import files, imported

STILL = {
    "tests/architecture/test_deploy.py": "tests.architecture.test_operations",
    "tests/golden/test_ledgers.py": "tests.properties.test_bookkeeper",
    "tests/properties/test_bookkeeper.py": "tests.properties.test_histories",
    "tests/properties/test_oracle.py": "tests.properties.test_histories",
    "tests/properties/test_suspending.py": "tests.properties.test_histories tests.properties.test_oracle",
    "tests/simulation/books.py": "tests.properties.test_bookkeeper",
    "tests/simulation/test_simulation.py": "tests.simulation.test_watch",
    "tests/unit/bus/nats/test_object_store.py": "tests.unit.bus.nats.test_jetstream",
    "tests/unit/callout/test_questions.py": "tests.unit.bus.nats.test_nkeys",
    "tests/unit/callout/test_service.py": "tests.unit.callout.test_questions",
    "tests/unit/domain/indexes/test_node_index.py": "tests.unit.domain.indexes.test_fragmentation "
    "tests.unit.domain.indexes.test_slice_packing",
    "tests/unit/domain/preemption/test_holdings.py": "tests.unit.domain.fold.test_suspension",
    "tests/unit/node_executor/core/test_suspension.py": "tests.unit.node_executor.core.test_lease",
}
"""Modules that import tests, and which: they were there before the rule. None is added; each that goes is taken out."""


def is_test(module: str) -> bool:
    return module.startswith("tests.") and module.rpartition(".")[2].startswith("test_")


def test_modules_import_no_test() -> None:
    """Importing one runs its fixtures and marks in another place, and a test that moves breaks others."""
    importing = {}
    for path in files():
        if path.startswith("tests/") and path.endswith(".py"):
            modules = {name for name in imported(path) if is_test(name) and f"{name.replace('.', '/')}.py" in files()}
            importing |= {path: " ".join(sorted(modules))} if modules else {}
    assert importing == STILL
