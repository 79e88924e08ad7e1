"""One test file for each source file, at the mirrored path."""

from __future__ import annotations

from tests.architecture.tree import files, sources

COVERED_ELSEWHERE = {
    # Structs alone; each has a golden record with a value in every field.
    "contracts/headrace/contracts/facts/": "tests/golden/test_facts.py",
    # The worked example has real processes or nothing.
    "services/headrace/demo/story.py": "tests/end_to_end/test_demo.py",
    # A tuple of what is tested by itself, put together by the executor's tests.
    "node-executor/headrace/node_executor/equipment.py": "tests/unit/node_executor/test_executor.py",
    # Structs alone, described by the schemas and carried by the services' own tests.
    "contracts/headrace/contracts/audit.py": "tests/unit/contracts/test_schemas.py",
    "contracts/headrace/contracts/orders.py": "tests/unit/contracts/test_schemas.py",
    "contracts/headrace/contracts/past.py": "tests/unit/contracts/test_schemas.py",
    "contracts/headrace/contracts/queries.py": "tests/unit/contracts/test_schemas.py",
    "contracts/headrace/contracts/usage.py": "tests/unit/contracts/test_schemas.py",
    "contracts/headrace/contracts/why.py": "tests/unit/contracts/test_schemas.py",
    "contracts/headrace/contracts/whatif.py": "tests/unit/simulate/test_difference.py",
    # Names alone, for the processes that start with them and the commands that start those.
    "services/headrace/bus/variables.py": "tests/unit/bus/test_process.py",
    "services/headrace/supervisor/errors.py": "tests/unit/supervisor/test_installation.py",
    # A real server on a real store, or nothing.
    "services/headrace/supervisor/store.py": "tests/integration/test_verify.py",
    # A stream and an installation are copied from a real server, and put together again in one.
    "services/headrace/bus/stream_copy.py": "tests/integration/test_stream_copy.py",
    "services/headrace/accounting/copies.py": "tests/integration/test_repair.py",
    "services/headrace/supervisor/mending.py": "tests/integration/test_repair.py",
    "services/headrace/cli/purge.py": "tests/integration/test_safekeeping.py",
    "services/headrace/cli/repair.py": "tests/integration/test_repair.py",
    "services/headrace/archive/purging.py": "tests/integration/test_archive.py",
    "services/headrace/cli/safekeeping.py": "tests/integration/test_safekeeping.py",
    **{
        f"services/headrace/supervisor/{name}.py": "tests/integration/test_safekeeping.py"
        for name in ("backup", "dumping", "restore", "stores")
    },
    # The services of the API answer over gRPC, with a ledger behind them, or not at all.
    **{
        f"services/headrace/governance/api/{name}.py": "tests/integration/test_api.py"
        for name in (
            *("accounts", "applying", "books", "history", "hosting", "jobmessages", "jobs", "nodes", "office"),
            *("queues", "server", "submitting", "system", "watching", "written"),
        )
    },
}
"""Source files (or folders, with a slash) and the test that covers them instead; each with its reason above it."""


def mirrored(source: str) -> str:
    """`tests/unit/allocator/test_decide.py` for `services/headrace/allocator/decide.py`."""
    folder, _, name = source.partition("/headrace/")[2].rpartition("/")
    return f"tests/unit/{folder}/test_{name}"


def excused(source: str) -> bool:
    """Whether it needs no test file of its own: `__init__` holds a charter and names, `__main__` two lines."""
    name = source.rpartition("/")[2]
    return name in ("__init__.py", "__main__.py") or any(
        source == place or (place.endswith("/") and source.startswith(place)) for place in COVERED_ELSEWHERE
    )


def test_every_source_file_has_its_test_file():
    there = set(files())
    missing = [
        f"{source} -> {mirrored(source)}" for source in sources() if not excused(source) and mirrored(source) not in there
    ]
    assert missing == [], "write the test file, or say in COVERED_ELSEWHERE where it is covered"


def test_every_test_file_has_its_source_file():
    known = {mirrored(source) for source in sources()}
    tests = [path for path in files() if path.startswith("tests/unit/") and path.rpartition("/")[2].startswith("test_")]
    assert [path for path in tests if path not in known] == [], "its source was renamed or removed"


def test_what_is_covered_elsewhere_is_there_and_so_is_its_test():
    there = files()
    gone = [place for place in COVERED_ELSEWHERE if not any(path == place or path.startswith(place) for path in there)]
    untested = [test for test in COVERED_ELSEWHERE.values() if test not in there]
    assert (gone, untested) == ([], [])
