"""The rules as machine code (`.compiled`, made by `make setup COMPILED=1`) beside the rules as they are written: the same bytes.

Whole systems are played, with seeded faults, in both environments: every record that any service writes goes into a run's digest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMPILED = ROOT / ".compiled/bin/python"
SEEDS = 60
"""This number takes about forty seconds on two cores."""


def output_lines(python: Path | str, what: str) -> list[str]:
    """The lines that a program prints there."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [python, "-c", what], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()


def test_it_is_machine_code():
    modules = (
        "headrace.domain.fold.apply",
        "headrace.domain.placement.placement",
        "headrace.allocator.decide",
        "headrace.preemption.decide",
    )
    where = "; ".join(f"import {module}; print({module}.__file__.endswith('.so'))" for module in modules)
    assert output_lines(COMPILED, where) == ["True"] * len(modules)


EACH_FIRST = """
import importlib, os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
import headrace.domain
root = Path(headrace.domain.__file__).parents[2]
for file in sorted(root.glob(f"headrace/**/*{EXTENSION_SUFFIXES[0]}")):
    room = ".".join(file.relative_to(root).parts).removesuffix(EXTENSION_SUFFIXES[0])
    child = os.fork()
    if child == 0:
        importlib.import_module(room)
        os._exit(0)
    print(room, os.waitpid(child, 0)[1])
"""


def test_whatever_is_imported_first_can_be():
    ends = dict(line.split() for line in output_lines(COMPILED, EACH_FIRST))
    assert {"headrace.domain.model.jobs", "headrace.allocator.decide"} <= set(ends)
    assert [module for module, status in ends.items() if status != "0"] == []


def test_every_seed_gives_the_same_bytes_in_both():
    digests = f"from tests.simulation.campaign import run\nfor seed in range({SEEDS}): print(seed, run(str(seed)).digest)"
    written = output_lines(sys.executable, digests)
    assert len(set(written)) == SEEDS
    assert output_lines(COMPILED, digests) == written
