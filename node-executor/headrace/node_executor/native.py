"""Builds the small C programs of this package if a compiler is installed: once for each version of their source.

Strategy: the result lies in the user's cache under a name that contains the digest of its source, so an upgrade never runs an old one,
and executors on a machine share it. Every account may read and run it, and only the executor's may write it: jobs under accounts of their
own are started through one of these programs, and load another. Without a compiler, or a directory of its own, the result is empty: the
caller has another way, and says that it takes it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence

import structlog

BUILD_TIMEOUT = 60.0
FOR_ALL = 0o755
COMPILERS = ("cc", "gcc", "clang")

_log = structlog.get_logger("headrace.node_executor")


def cache_directory(environ: Mapping[str, str], otherwise: str) -> str:
    """Return the directory for built files: the user's cache, or `otherwise` for accounts without a home."""
    home = environ.get("XDG_CACHE_HOME") or (f"{environ['HOME']}/.cache" if environ.get("HOME") else "")
    return f"{home}/headrace" if home.startswith("/") else otherwise


def built(source: str, directory: str, variants: Sequence[Sequence[str]] = (("-O2", "-static"), ("-O2",))) -> str:
    """Build the C file `source` into `directory` with the first of the `variants` of flags that works; returns "" if none does."""
    try:
        with open(source, "rb") as file:
            digest = hashlib.sha256(repr(variants).encode() + file.read()).hexdigest()[:16]
        if not os.path.isdir(directory):
            os.makedirs(directory)
            os.chmod(directory, FOR_ALL)
        path = f"{directory}/{os.path.basename(source).removesuffix('.c')}-{digest}"
        if not _is_ours(directory):
            _log.warning("not_built", source=source, reason=f"{directory} can be written by others")
            return ""
        if os.access(path, os.X_OK) and _is_ours(path):
            os.chmod(path, FOR_ALL)  # earlier releases closed it to others
            return path
        return path if _build(source, path, variants) else ""
    except OSError as error:
        _log.warning("not_built", source=source, reason=str(error))
        return ""


def _is_ours(path: str) -> bool:
    """Return whether no other user can have put a file there."""
    found = os.stat(path)
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _build(source: str, path: str, variants: Sequence[Sequence[str]]) -> bool:
    compiler = next(filter(None, map(shutil.which, COMPILERS)), None)
    if compiler is None:
        _log.info("not_built", source=source, reason="no C compiler was found")
        return False
    descriptor, fresh = tempfile.mkstemp(dir=os.path.dirname(path))
    os.close(descriptor)
    said = ""
    try:
        for flags in variants:
            done = subprocess.run(  # noqa: S603 - our own source, by the system's compiler
                [compiler, *flags, "-o", fresh, source], capture_output=True, text=True, timeout=BUILD_TIMEOUT, check=False
            )
            said = done.stderr
            if done.returncode == 0:
                os.chmod(fresh, FOR_ALL)
                os.rename(fresh, path)
                return True
    except subprocess.TimeoutExpired:
        said = f"{compiler} took longer than {BUILD_TIMEOUT:g} s"
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
    _log.warning("not_built", source=source, reason=said.strip().splitlines()[-1] if said.strip() else "the compiler failed")
    return False
