"""Adds the page of rules to a wheel; if HEADRACE_COMPILED=1 also machine code: of the rules, and of the executor's C programs.

Compiled rules decide the same and faster. They are compiled by mypyc, which comes with mypy; that needs setuptools, a C compiler and
Python's headers, and the packages that Headrace imports, because their types are read. Without the variable, and in an
editable installation always, the wheel is plain Python.
The modules left out stand in `PLAIN`, with the reason.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
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
RULES = "docs/rules.md"
"""The page that `headrace rules` prints; an editable installation reads it where it stands."""
C_PROGRAMS = "node-executor/headrace/node_executor/system/c_programs.py"


class CompiledParts(BuildHookInterface[Any]):
    """The hook that hatchling calls before it puts a wheel together."""

    PLUGIN_NAME = "custom"

    _made: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the page of rules to the wheel, and what was compiled. Errors of the compiler end the build."""
        if self.target_name == "wheel" and version != "editable":
            build_data["force_include"][str(Path(self.root, RULES))] = f"headrace/cli/{Path(RULES).name}"
        if self.target_name != "wheel" or version == "editable" or os.environ.get("HEADRACE_COMPILED", "0") in {"", "0"}:
            return
        made = self._made = Path(tempfile.mkdtemp(prefix="headrace-compiled-"))
        with chdir(Path(self.root, "services")):
            _compile(made)
        _build_programs(Path(self.root), made / "lib")
        for file in sorted((made / "lib").rglob("*")):
            if file.is_file():
                build_data["force_include"][str(file)] = str(file.relative_to(made / "lib"))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002 - as hatchling calls it
        """Remove the files that the wheel has now."""
        if self._made is not None:
            shutil.rmtree(self._made)


def _compile(made: Path) -> None:
    import mypyc  # noqa: PLC0415 - needed by those who compile only
    from mypyc.build import mypycify  # noqa: PLC0415 - the same
    from setuptools import setup  # noqa: PLC0415 - the same

    os.environ["MYPYPATH"] = os.pathsep.join([".", "../contracts"])
    # Neither debugging information, which mypyc asks for by itself, nor names of directories: the same source, the same bytes.
    directories = f"-ffile-prefix-map={made}=. -ffile-prefix-map={Path(mypyc.__file__).parent}=mypyc"
    os.environ["CFLAGS"] = f"{os.environ.get('CFLAGS', '')} -g0 {directories}"
    sources = sorted(str(file) for package in COMPILED for file in Path(package).rglob("*.py") if not _is_plain(file))
    options = ["--config-file=", "--namespace-packages", "--explicit-package-bases", "--ignore-missing-imports"]
    analysed = [*options, f"--cache-dir={made / 'mypy'}", *sources]
    extensions = mypycify(analysed, opt_level=OPTIMIZE, debug_level="0", multi_file=True, target_dir=str(made / "c"))
    places = ["--build-lib", str(made / "lib"), "--build-temp", str(made / "temp")]
    setup(
        name="headrace-rules",
        packages=[],
        ext_modules=extensions,
        script_args=["--quiet", "build_ext", *places, f"--parallel={os.cpu_count()}"],
    )


def _build_programs(root: Path, target: Path) -> None:
    spec = importlib.util.spec_from_file_location("c_programs", root / C_PROGRAMS)
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - the file is there
    programs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(programs)
    directory = target / Path(programs.PREBUILT).relative_to(root / "node-executor")
    directory.mkdir(parents=True)
    for source, variants in programs.PROGRAMS.items():
        path = directory / programs.build_name(source, variants)
        command = [os.environ.get("CC", "cc"), *variants[0], "-o", str(path), os.path.relpath(source, root)]
        subprocess.run(command, cwd=root, check=True)  # noqa: S603 - our own source, by the system's compiler


def _is_plain(file: Path) -> bool:
    path = file.as_posix()
    return any(path.endswith(plain) or f"/{plain}" in path for plain in PLAIN)
