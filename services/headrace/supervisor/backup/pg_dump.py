"""Dump and load of the books' database as one file, by PostgreSQL's own programs: consistent whatever is written meanwhile."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from headrace.supervisor.errors import InstallationError
from headrace.supervisor.processes.postgres import binaries


def dump(dsn: str, file: Path) -> None:
    """Write the database into `file`. Raises `InstallationError` with PostgreSQL's message."""
    file.touch(mode=0o600)
    _run("pg_dump", dsn, "--format=custom", "--no-owner", "--no-acl", f"--file={file}")


def load(dsn: str, file: Path) -> None:
    """Load what `dump` wrote, all or nothing, into an empty database."""
    name = unquote(urlsplit(dsn).path.lstrip("/"))
    _run("pg_restore", dsn, f"--dbname={name}", "--no-owner", "--no-acl", "--single-transaction", "--exit-on-error", str(file))


def _run(program: str, dsn: str, *words: str) -> None:
    """Run the program. The password is passed in the environment: every user can read the arguments of processes."""
    parts = urlsplit(dsn)
    where = {
        "PGHOST": parse_qs(parts.query)["host"][0],
        "PGDATABASE": unquote(parts.path.lstrip("/")),
        "PGUSER": unquote(parts.username or ""),
        "PGPASSWORD": unquote(parts.password or ""),
    }
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"} | where
    done = subprocess.run([binaries() / program, *words], env=environment, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if line.strip()]
        raise InstallationError(f"{program} failed: {errors[0] if errors else f'exit code {done.returncode}'}")
