"""Makes machine code of the rules while a wheel is built with HEADRACE_COMPILED=1: the same source, the same decisions, sooner.

What is compiled (by mypyc, which comes with mypy) is what decides and what folds; it needs a C compiler and Python's headers. Without the
variable, and in an editable installation always, the wheel is plain Python. The modules left out stand in `PLAIN`, with the reason.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import chdir
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED = ("headrace/domain", "headrace/allocator", "headrace/preemption")
PLAIN = (
    "__init__.py",
    "__main__.py",
    "allocator/service.py",  # what waits for messages gains nothing
    "preemption/service.py",
    "domain/explain/",  # answers questions of people, so speed matters less; mypyc writes invalid C for one of its modules
    "domain/fold/ledger.py",  # services have readers of their own made from it
    "domain/snapshots/",  # these look at classes from outside, and set fields that no source names
)
OPTIMIZE = "2"


class CompiledRules(BuildHookInterface[Any]):
    """The hook that hatchling calls before it puts a wheel together."""

    PLUGIN_NAME = "custom"

    _made: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add what was compiled to the wheel. Errors of the compiler end the build."""
        if self.target_name != "wheel" or version == "editable" or os.environ.get("HEADRACE_COMPILED", "0") in {"", "0"}:
            return
        made = self._made = Path(tempfile.mkdtemp(prefix="headrace-compiled-"))
        with chdir(self.root):
            _compile(made)
        for file in made.rglob("lib/**/*.so"):
            build_data["force_include"][str(file)] = str(file.relative_to(made / "lib"))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - as hatchling calls it
        """Let go of what the wheel has now."""
        if self._made is not None:
            shutil.rmtree(self._made)


def _compile(made: Path) -> None:
    from mypyc.build import mypycify  # noqa: PLC0415 - needed by those who compile only
    from setuptools import setup  # noqa: PLC0415 - the same

    os.environ["MYPYPATH"] = os.pathsep.join([".", "../contracts"])
    sources = sorted(str(file) for room in COMPILED for file in Path(room).rglob("*.py") if not _is_plain(file))
    options = ["--config-file=", "--namespace-packages", "--explicit-package-bases", "--ignore-missing-imports"]
    extensions = mypycify(
        [*options, f"--cache-dir={made / 'mypy'}", *sources], opt_level=OPTIMIZE, multi_file=True, target_dir=str(made / "c")
    )
    places = ["--build-lib", str(made / "lib"), "--build-temp", str(made / "temp")]
    setup(
        name="headrace-rules",
        packages=[],
        ext_modules=extensions,
        script_args=["--quiet", "build_ext", *places, f"--parallel={os.cpu_count()}"],
    )


def _is_plain(file: Path) -> bool:
    path = file.as_posix()
    return any(path.endswith(plain) or f"/{plain}" in path for plain in PLAIN)
