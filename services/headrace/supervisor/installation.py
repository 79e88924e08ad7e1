"""The data directory of one installation: where everything lies, logins made once, and settings for the next start.

endpoint.json          where clients connect, and with which login
credentials/NAME.json  one login each, 0600
installation.json      the settings of the last start
logs/NAME.log          output of each child
running.json, lock     see `processes.pidfile`
nats/  postgres/  gateway/  nodes/NAME/  keys/
"""

from __future__ import annotations

import getpass
import os
import re
import secrets
import socket
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from headrace.archive import atomic_files
from headrace.bus.nats.cluster_routes import CLUSTER, Routes
from headrace.bus.nats.nkeys import AccountKey
from headrace.bus.nats.permissions import SERVICES, Credential, server_config
from headrace.client.endpoint import ENDPOINT_FILE, Endpoint, Login, data_directory, read_login
from headrace.client.errors import Unreachable
from headrace.contracts.values.ids import DEFAULT_TENANT, is_token
from headrace.host.layouts import DEFAULT
from headrace.identity.signing import IDENTITY, ISSUER_KEY
from headrace.supervisor.directories import CREDENTIALS, LOGS, METRICS, METRICS_TOKEN
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.ledger_roles import NATS
from headrace.supervisor.network.certificates import Certificates, development
from headrace.supervisor.network.ports import LOOPBACK, WILDCARDS
from headrace.supervisor.network.sockets import NoSocketDirectory, short_enough

OPERATOR = "operator"
OWNER = "owner"
CALLOUT = "callout"
API_SOCKET, LOCAL_SOCKET = "api.sock", "local.sock"
"""The sockets of *governance*, for the gateway, and of the gateway, for the owner."""
NODE_LOGIN = "node-"
ROUTES = "routes"
NO_LOGINS_OF_NATS = frozenset({"database", METRICS, ROUTES})
"""Names of credentials that are not logins of the bus."""
PASSWORD_BYTES = 24
CLUSTER_OF = 3
"""Number of NATS servers in a cluster: one of them may be lost."""
NODE_NAME_MAX = 57  # its login is named `node-NAME`, which has to be a token as well


class Settings(msgspec.Struct, kw_only=True, frozen=True):
    """Settings of the last `up`, used again for flags that are left out. `host`: what simulated nodes are named after.

    `nats_port` is where the first NATS server listens, `nats_ports` where the others do, and `route_ports` where all listen to each
    other. Without `tls` and `dev_ca` everything listens on the loopback only. `reached_as`: the name or address in the URLs, which the
    certificate has to cover.
    """

    host: str
    nats_port: int | None = None
    nats_servers: int = 1
    nats_ports: tuple[int, ...] = ()
    route_ports: tuple[int, ...] = ()
    api_port: int | None = None
    nodes: int = 1
    gpus: int = 8
    gpu_model: str = "H100-80GB"
    currency: str = "USD"
    labels: dict[str, str] = msgspec.field(default_factory=lambda: {"site": "hq"})
    tls: Certificates | None = None
    dev_ca: bool = False
    standby: bool = False
    layout: str = DEFAULT
    hold_level: bool = False
    jobs_are_trusted: bool = False
    listen: str = LOOPBACK
    reached_as: str = LOOPBACK

    @property
    def client_ports(self) -> tuple[int, ...]:
        """Ports of the NATS servers for clients; empty before the first start."""
        return () if self.nats_port is None else (self.nats_port, *self.nats_ports)


class ServerPlace(NamedTuple):
    """Files of one NATS server. `name`: that of the process."""

    name: str
    config: Path
    store: Path


class Installation:
    """One data directory. Created if missing, readable by its owner only."""

    def __init__(self, directory: str | Path | None = None) -> None:
        self.directory = data_directory(directory)
        self.logs = self.directory / LOGS
        self.credentials = self.directory / CREDENTIALS
        self._nats = self.directory / "nats"
        self.nats_store = self._nats / "store"
        self.postgres = self.directory / "postgres"
        self.endpoint = self.directory / ENDPOINT_FILE
        self.gateway_config = self.directory / "gateway" / "envoy.json"
        self.descriptors = self.directory / "gateway" / "api.pb"
        self.metrics = self.directory / METRICS
        self.nodes = self.directory / "nodes"
        self._settings = self.directory / "installation.json"

    def prepare(self) -> None:
        """Create the directory and its content. Raises `InstallationError`."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if os.geteuid() == 0:
                for needed in (self.directory, Path(sys.executable), Path(sys.executable).resolve()):
                    allow_traversal(needed)  # jobs of other accounts start below the first, and many with the Python of `up`
            passing = (self.directory.stat().st_mode & 0o011) | (0o001 if os.geteuid() == 0 else 0)
            self.directory.chmod(0o700 | passing)  # others may pass through at most: to their jobs' directories
            for entry in self.directory.iterdir() if passing else ():
                _close(entry)
            for part in (
                self.logs,
                self.credentials,
                self._nats,
                self.nats_store,
                self.gateway_config.parent,
                self.metrics,
            ):
                part.mkdir(mode=0o700, exist_ok=True)
            self.nodes.mkdir(mode=0o700, exist_ok=True)
            self.nodes.chmod(0o700 | passing)
        except OSError as error:
            raise InstallationError(f"{self.directory} cannot be used: {error.strerror}; name another with --data") from None

    def servers(self, count: int | None = None) -> tuple[ServerPlace, ...]:
        """Return the NATS servers: one, or three (None: as in the settings).

        Raises `InstallationError` if the data is of another number.

        A single server and a cluster keep their data in different ways: each would take the other's data for foreign, and remove it.
        """
        count = self.settings().nats_servers if count is None else count
        alone = (ServerPlace(NATS, self._nats / "server.conf", self.nats_store),)
        several = tuple(
            ServerPlace(f"{NATS}-{number}", self._nats / f"server-{number}.conf", self._nats / f"store-{number}")
            for number in range(1, CLUSTER_OF + 1)
        )
        wanted, others = (alone, several) if count == 1 else (several, alone)
        if any(_has_data(place.store) for place in others):
            raise InstallationError(
                f"--nats-servers: {self.directory} was begun with {len(others)}; say so, or name another directory with --data"
            )
        return wanted

    def settings(self) -> Settings:
        """Return the settings of the last start, or the defaults."""
        try:
            return msgspec.json.decode(self._settings.read_bytes(), type=Settings)
        except FileNotFoundError:
            return Settings(host=as_token(socket.gethostname()))
        except (OSError, msgspec.DecodeError) as error:
            raise InstallationError(f"{self._settings} is damaged: {error}; remove it, and name the settings again") from None

    def settings_kept(self) -> bool:
        """Return whether the installation has been started before."""
        return self._settings.exists()

    def keep_settings(self, settings: Settings) -> None:
        """Store the settings for the next start."""
        write_whole(self._settings, msgspec.json.format(msgspec.json.encode(settings)))

    def login(self, name: str, kind: str, *, tenant: str = "", user: str = "", node: str = "") -> Login:
        """Return the login of that name, created with a new password if missing."""
        path = self.credentials / f"{name}.json"
        if not path.exists():
            password = secrets.token_urlsafe(PASSWORD_BYTES)
            login = Login(name=name, password=password, kind=kind, tenant=tenant, user=user, node=node)
            write_whole(path, msgspec.json.encode(login), 0o600)
        try:
            return read_login(path)
        except Unreachable as error:
            raise InstallationError(f"{error}; remove it, and a new one is made") from None

    def operator(self) -> Login:
        """The login that makes the streams, and may read everything."""
        return self.login(OPERATOR, "operator")

    def owner(self) -> Login:
        """Login of the installation's owner: an admin of the tenant `default`, with the name of the system's user."""
        return self.login(OWNER, "admin", tenant=DEFAULT_TENANT, user=as_token(getpass.getuser()))

    def service(self, name: str) -> Login:
        """The login of one service."""
        return self.login(name, "service")

    def callout(self) -> Login:
        """The login of the callout, which answers whether a client may connect."""
        return self.login(CALLOUT, "callout")

    def callout_system(self) -> Login:
        """The login with which the callout ends connections."""
        return self.login(f"{CALLOUT}-system", "system")

    def node(self, name: str) -> Login:
        """The login of one node."""
        if not is_token(name) or len(name) > NODE_NAME_MAX:
            raise InstallationError(f"invalid node name {name!r}: use 1 to {NODE_NAME_MAX} of a-z, 0-9 and '-'")
        return self.login(NODE_LOGIN + name, "node", node=name)

    def node_directory(self, name: str) -> Path:
        """Return the directory of a node for its state and its jobs' output."""
        return self.nodes / name

    def metrics_token(self) -> str:
        """The token for reading metrics; Prometheus reads it from `credentials/metrics.token`."""
        token = self.login("metrics", METRICS).password
        path = self.credentials / METRICS_TOKEN
        if not path.exists():
            write_whole(path, token.encode(), 0o600)
        return token

    def postgres_password(self) -> str:
        """The password of the database."""
        return self.login("postgres", "database").password

    def certificates(self) -> Certificates | None:
        """Certificates of the settings, or those of the development authority; None: without TLS."""
        settings = self.settings()
        if not settings.dev_ca:
            return settings.tls
        names = {LOOPBACK, "localhost", "::1", settings.host, settings.reached_as, *({settings.listen} - WILDCARDS)}
        try:
            return development(self.directory / "tls", names)
        except OSError as error:
            raise InstallationError(atomic_files.unwritten(self.directory / "tls", error)) from None

    def write_nats_config(self, ports: Sequence[int], routes: Sequence[int] = (), *, private: bool = False) -> None:
        """Write the servers' configurations, with every login. `private`: only for this process, on the loopback and without TLS."""
        self.operator()
        self.owner()
        for name in SERVICES:
            self.service(name)
        self.callout()
        self.callout_system()
        known = [read_login(path) for path in sorted(self.credentials.glob("*.json"))]
        logins = [Credential(**msgspec.structs.asdict(login)) for login in known if login.kind not in NO_LOGINS_OF_NATS]
        issuer = AccountKey.at(self.directory / IDENTITY / ISSUER_KEY).public
        tls = None if private else self.certificates()
        files = None if tls is None else (tls.certificate, tls.key)
        host = LOOPBACK if private else self.settings().listen
        shown = self.login(ROUTES, ROUTES) if routes else None
        for number, (place, port) in enumerate(zip(self.servers(), ports, strict=True)):
            place.store.mkdir(mode=0o700, exist_ok=True)
            others = tuple(f"{LOOPBACK}:{route}" for route in routes)
            cluster = None if shown is None else Routes(others[number], others, shown.name, shown.password)
            name = CLUSTER if cluster is None else f"{CLUSTER}-{number + 1}"
            text = server_config(
                logins, place.store, host=host, port=port, server_name=name, issuer=issuer, tls=files, cluster=cluster
            )
            write_whole(place.config, text.encode(), 0o600)

    def api_socket(self) -> Path:
        """The socket on which *governance* serves the gateway. Raises `InstallationError` if its path is too long."""
        try:
            return short_enough(self.gateway_config.parent / API_SOCKET)
        except NoSocketDirectory as error:
            raise InstallationError(str(error)) from None

    def local_socket(self) -> Path:
        """The socket on which the gateway serves the owner. Raises `InstallationError` if its path is too long."""
        return self.api_socket().with_name(LOCAL_SOCKET)

    def write_gateway_config(self, port: int) -> str:
        """Write the gateway's configuration and the API's descriptors; returns the unique name of this gateway."""
        from headrace.contracts.schemas.protocol import descriptors  # noqa: PLC0415 - the commands that start nothing need no protobuf
        from headrace.supervisor.network.gateway import Tls, gateway_config  # noqa: PLC0415

        write_whole(self.descriptors, descriptors().SerializeToString(deterministic=True), 0o644)
        known, host = self.certificates(), self.settings().listen
        tls = None if known is None else Tls(known.certificate, known.key)
        called = f"headrace-{secrets.token_hex(8)}"
        config = gateway_config(
            str(self.api_socket()),
            str(self.descriptors),
            host=host,
            port=port,
            local=str(self.local_socket()),
            tls=tls,
            called=called,
        )
        write_whole(self.gateway_config, config.encode(), 0o600)
        return called

    def write_endpoint(self, url: str, api: str = "", local: str = "", ca: str = "") -> None:
        """Write the addresses and the login for clients.

        `local`: the socket of the gateway. `ca`: file of the trusted authority; empty: as in the settings.
        """
        self.owner()
        tls = self.certificates()
        ca = ca or ("" if tls is None else tls.ca)
        endpoint = Endpoint(url=url, credentials=f"{self.credentials.name}/{OWNER}.json", api=api, local=local, ca=ca)
        write_whole(self.endpoint, msgspec.json.format(msgspec.json.encode(endpoint)))


def allow_traversal(path: Path) -> None:
    """Let other accounts (of jobs and of the database) pass through to `path`, without listing directories. Raises `OSError`."""
    for parent in path.absolute().parents:
        mode = stat.S_IMODE(parent.stat().st_mode)
        if not mode & stat.S_IXOTH:
            parent.chmod(mode | stat.S_IXOTH)


def _close(entry: Path) -> None:
    """Close everything beside the nodes' directories to other accounts; links and files of other accounts (the database's) are skipped."""
    found = entry.lstat()
    if found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode) and found.st_mode & 0o077:
        entry.chmod(stat.S_IMODE(found.st_mode) & ~(0o066 if entry.name == "postgres" else 0o077))


def _has_data(store: Path) -> bool:
    return store.is_dir() and any(store.iterdir())


def as_token(text: str) -> str:
    """Return a host's or user's name as a part of a subject: `GPU01.hq` becomes `gpu01-hq`; `local` if empty."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:48].strip("-") or "local"


def write_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file atomically: readers see the old content or the new, even after a power cut."""
    try:
        atomic_files.write(path, data, mode)
    except OSError as error:
        raise InstallationError(atomic_files.unwritten(path, error)) from None
