"""Where a unit test lies: at the path of its source. Modules that decide, fold or hold the state each have one; others where it helps."""

from __future__ import annotations

from tests.architecture.tree import files, sources

DECIDING = (
    "domain/",
    "allocator/",
    "preemption/",
    "admission/",
    "provisioner/decide",
    "kubernetes/decide",
    "node_executor/core/",
)


def mirrored(source: str) -> str:
    """`tests/unit/allocator/test_decide.py` for `services/headrace/allocator/decide.py`."""
    folder, _, name = source.partition("/headrace/")[2].rpartition("/")
    return f"tests/unit/{folder}/test_{name}"


def decides(source: str) -> bool:
    """Whether it lies in a package of `DECIDING` and is not an `__init__`, which names its package, or `__main__`, which has two lines."""
    path = source.partition("/headrace/")[2]
    return path.startswith(DECIDING) and path.rpartition("/")[2] not in ("__init__.py", "__main__.py")


def test_every_module_that_decides_or_folds_has_its_test_file():
    there = set(files())
    assert [
        f"{source} -> {mirrored(source)}" for source in sources() if decides(source) and mirrored(source) not in there
    ] == []


def test_every_test_file_has_its_source_file():
    known = {mirrored(source) for source in sources()}
    tests = [path for path in files() if path.startswith("tests/unit/") and path.rpartition("/")[2].startswith("test_")]
    assert [path for path in tests if path not in known] == [], "its source was renamed or removed"
