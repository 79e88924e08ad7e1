"""A session of pytest inside another one leaves open what jobs of the outer one have to reach."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only sessions of root open their directories to others")
def test_a_session_inside_another_does_not_close_the_directory_of_that_one(tmp_path):
    shared = tmp_path / "pytest-of-root"
    shared.mkdir(mode=0o701)
    (tmp_path / "test_inner.py").write_text("def test_inner(tmp_path):\n    assert tmp_path.is_dir()\n", "utf-8")

    inner = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-c", os.devnull, "--rootdir", tmp_path, tmp_path],
        cwd=ROOT,
        env=os.environ | {"PYTEST_DEBUG_TEMPROOT": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (inner.returncode, stat.S_IMODE(shared.stat().st_mode)) == (0, 0o701), inner.stdout
