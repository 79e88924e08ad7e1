"""Puts the small C programs of this package in place: those that a compiled wheel brings, else built here if a compiler is installed.

Strategy: the result lies in the user's cache under a name that contains the digest of its source, so an upgrade never runs an old one,
and executors on a machine share it. Every account may read and run it, and only the executor's may write it: jobs under accounts of their
own are started through one of these programs, and load another. Without a compiler, or a directory of its own, the result is empty: the
caller has another way, and says that it takes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping

import structlog

from headrace.node_executor.system import c_programs

BUILD_TIMEOUT = 60.0
FOR_ALL = 0o755
COMPILERS = ("cc", "gcc", "clang")

_log = structlog.get_logger("headrace.node_executor")


def cache_directory(environ: Mapping[str, str], otherwise: str) -> str:
    """Return the directory for built files: the user's cache, or `otherwise` for accounts without a home."""
    home = environ.get("XDG_CACHE_HOME") or (f"{environ['HOME']}/.cache" if environ.get("HOME") else "")
    return f"{home}/headrace" if home.startswith("/") else otherwise


def built(source: str, directory: str, variants: c_programs.Variants = c_programs.PROGRAM) -> str:
    """Return the path below `directory` of the program of the C file `source`, or "" if it can neither be found nor built.

    A program that came built is copied; otherwise it is built with the first of the `variants` of flags that works.
    """
    try:
        name = c_programs.build_name(source, variants)
        if not os.path.isdir(directory):
            os.makedirs(directory)
            os.chmod(directory, FOR_ALL)
        path = f"{directory}/{name}"
        if not _is_ours(directory):
            _log.warning("not_built", source=source, reason=f"{directory} can be written by others")
            return ""
        if os.access(path, os.X_OK) and _is_ours(path):
            os.chmod(path, FOR_ALL)  # earlier releases closed it to others
            return path
        return path if _placed(source, path, variants) else ""
    except OSError as error:
        _log.warning("not_built", source=source, reason=str(error))
        return ""


def _is_ours(path: str) -> bool:
    """Return whether no other user can have put a file there."""
    found = os.stat(path)
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _placed(source: str, path: str, variants: c_programs.Variants) -> bool:
    """Return whether the program is at `path` now, complete."""
    descriptor, fresh = tempfile.mkstemp(dir=os.path.dirname(path))
    os.close(descriptor)
    try:
        if not _copied(f"{c_programs.PREBUILT}/{os.path.basename(path)}", fresh) and not _compiled(source, fresh, variants):
            return False
        os.chmod(fresh, FOR_ALL)
        os.rename(fresh, path)
        return True
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)


def _copied(prebuilt: str, path: str) -> bool:
    if not os.path.isfile(prebuilt):
        return False
    shutil.copyfile(prebuilt, path)
    return True


def _compiled(source: str, path: str, variants: c_programs.Variants) -> bool:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        _log.info("not_built", source=source, reason="no C compiler was found")
        return False
    output = ""
    try:
        for flags in variants:
            done = subprocess.run(  # noqa: S603 - our own source, by the system's compiler
                [compiler, *flags, "-o", path, source], capture_output=True, text=True, timeout=BUILD_TIMEOUT, check=False
            )
            output = done.stderr
            if done.returncode == 0:
                return True
    except subprocess.TimeoutExpired:
        output = f"{compiler} took longer than {BUILD_TIMEOUT:g} s"
    _log.warning(
        "not_built", source=source, reason=output.strip().splitlines()[-1] if output.strip() else "the compiler failed"
    )
    return False
