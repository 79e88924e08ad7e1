"""Tests and benchmarks look at behaviour: they use no private attribute of another object, with few exceptions."""

from __future__ import annotations

import ast

from tests.architecture.tree import files, parsed

ALLOWED: dict[str, tuple[str, str]] = {
    "bench/calibrate.py": ("_exit", "public in the standard library"),
    "tests/integration/attacks/test_bus.py": (
        "_flush_pending _send_publish",
        "nats-py: an attacker does not have its size check",
    ),
    "tests/replacing.py": ("_getframe", "public in the standard library"),
    "tests/simulation/clockwork.py": ("_cancelled _context _run", "asyncio: an event loop runs handles by these"),
    "tests/simulation/test_clockwork.py": ("_log_destroy_pending", "asyncio: tasks of a stopped process are dropped silently"),
    "tests/simulation/world.py": ("_log_destroy_pending", "asyncio: tasks of a stopped process are dropped silently"),
    "tests/unit/cli/test_main.py": ("_SubParsersAction _actions", "argparse: it has no public list of subcommands"),
    "tests/unit/nats_client/test_hardened_client.py": (
        "_error_cb _id _io_writer _pongs _process_err _process_msg _process_op_err _status _transport",
        "nats-py: HardenedClient replaces its internals",
    ),
    "tests/unit/nats_client/test_raw_message.py": ("_build_message _remove_sub", "nats-py: RawMessage replaces its internals"),
}
"""Private names that a file may use, and why. A name that is no longer used leaves the list; none is added for code of ours."""

PUBLIC = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}
"""Methods of named tuples, which are public though they begin with an underscore."""


def private(tree: ast.Module) -> set[str]:
    """The private attributes of something else than `self` and `cls` that are read or set."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in PUBLIC
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    }


def test_tests_and_benchmarks_use_only_the_private_attributes_that_are_allowed():
    paths = [path for path in files() if path.startswith(("tests/", "bench/")) and path.endswith(".py")]
    used = {path: " ".join(sorted(names)) for path in paths if (names := private(parsed(path)))}
    assert used == {path: names for path, (names, _) in ALLOWED.items()}, "assert what others can see, or make it public"


def test_own_attributes_dunders_and_named_tuples_are_not_counted():
    tree = ast.parse("self._a\ncls._b\nx.__class__\nx._replace(a=1)\nx._c\nself.x._d = 1\n")
    assert private(tree) == {"_c", "_d"}
