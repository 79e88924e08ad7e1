"""Writes what services need without `headrace up`: logins, configurations of servers and gateway, and an environment for each process.

Everything is written into one directory, which is then that of the installation: the services that seal, open and sign share it (`keys`,
`identity`, `archive`), wherever they run. The configurations are those that `headrace up` uses, made by the same code.

env/NAME.env        environment of the process NAME, 0600              nats/server-N.conf      of each NATS server, 0600
gateway/envoy.json  of Envoy, with api.pb beside it                    endpoint.json           for the command line
env/node-NAME.env   of a simulated node                                tls/                    a development authority
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from headrace.bus.nats.cluster_routes import Routes
from headrace.bus.nats.nkeys import AccountKey
from headrace.bus.nats.permissions import SERVICES, STANDBY, STANDBYS, Credential, server_config
from headrace.bus.variables import API, DATA, INSTALLATION, INSTANCE, PASSWORD, SYSTEM_PASSWORD, SYSTEM_USER, TURN, URL, USER
from headrace.client.endpoint import read_login
from headrace.contracts.transport.digests import text_digest
from headrace.contracts.transport.tls import CA, SECURE
from headrace.health.config import LISTEN, TOKEN
from headrace.identity.signing import IDENTITY, ISSUER_KEY
from headrace.supervisor.directories import CLUSTER_FILE
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import CALLOUT, LOCAL_SOCKET, NO_LOGINS_OF_NATS, ROUTES, Installation, write_whole
from headrace.supervisor.network.certificates import Certificates, development
from headrace.supervisor.network.ports import LOOPBACK
from headrace.supervisor.processes.process_specs import CURRENCY, POSTGRES_DSN

TLS = "tls"
NODE = "node-"
NATS_PORT, ROUTE_PORT = 4222, 6222
FIRST_PORT = 9101
NODE_PORT = 9100
COPIES = 10
TAG = 16
"""Characters of the tag of instances."""
"""Added to the port of a process for its second instance."""

EVERYWHERE = "0.0.0.0"  # noqa: S104 - where others have to reach it
_LOOPBACKS = frozenset({LOOPBACK, "localhost", "::1"})
_UNQUOTED = re.compile(r"[^\s'\"\\$`#]*")


class ClusterConfig(msgspec.Struct, kw_only=True, frozen=True):
    """Settings of the cluster, given once and kept.

    `nats`: the addresses of all NATS servers; `postgres`: the DSN of the books; `listen`: where Envoy serves the API, and `api`: its URL
    for clients. `directory`: path of this directory where the services run; `nats_store` and the `tls` files: paths on the NATS servers.
    `metrics`: the address at which each process serves its health. `in_the_clear`: NATS without TLS although it is beyond this machine,
    because the network between the machines is a private one. `dev_ca`: a private authority and the servers' certificate are made in
    `tls/`; it covers the servers and the names in `reached_as`. `nodes`: nodes with a login of their own in the servers' configuration.
    """

    nats: tuple[str, ...]
    postgres: str
    listen: str = f"{LOOPBACK}:8080"
    api: str = ""
    directory: str = ""
    socket: str = ""
    nats_store: str = "/var/lib/nats"
    tls_cert: str = ""
    tls_key: str = ""
    tls_ca: str = ""
    metrics: str = LOOPBACK
    currency: str = "USD"
    in_the_clear: bool = False
    dev_ca: bool = False
    reached_as: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class Server(NamedTuple):
    """One NATS server: its name and its address."""

    name: str
    host: str
    port: int


def servers(config: ClusterConfig) -> tuple[Server, ...]:
    """Return the NATS servers. Raises `InstallationError` for malformed addresses, or a number that cannot elect a leader."""
    found = []
    for number, url in enumerate(config.nats, start=1):
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or NATS_PORT
        except ValueError:
            host, port = "", 0
        if parts.scheme not in ("nats", "tls") or not host or parts.path or parts.username:
            raise InstallationError(
                f"--nats: invalid address {url!r}; write nats://HOST:4222, or tls://HOST:4222 with certificates"
            )
        found.append(Server(f"headrace-{number}", host, port))
    if len(found) not in (1, 3, 5):
        raise InstallationError(
            f"--nats: {len(found)} servers; one alone, or three (or five) that can outvote one that is lost"
        )
    return tuple(found)


def check(config: ClusterConfig) -> None:
    """Raise `InstallationError` if traffic would leave the machine without TLS, or a value does not fit into an environment."""
    secure = [url.startswith(SECURE) for url in config.nats]
    if any(secure) != all(secure):
        raise InstallationError("--nats: all of them with tls://, or none")
    if any(secure) and not config.dev_ca and not (config.tls_cert and config.tls_key):
        raise InstallationError("--nats: tls:// takes --tls-cert and --tls-key: the files on the NATS servers; or --dev-ca")
    if config.dev_ca and not all(secure):
        raise InstallationError("--dev-ca: the certificate is for tls://; write --nats tls://HOST:4222")
    beyond = [server.host for server in servers(config) if server.host not in _LOOPBACKS]
    if beyond and not any(secure) and not config.in_the_clear:
        raise InstallationError(
            f"--nats: {beyond[0]} is beyond this machine: take tls://, or --in-the-clear where the network between is private"
        )
    values = {"--postgres": config.postgres, "--as": config.directory, "--socket": config.socket, "--tls-ca": config.tls_ca}
    for flag, value in values.items():
        if not _UNQUOTED.fullmatch(value):
            raise InstallationError(
                f"{flag}: no blanks, quotes, backslashes, $ or # in it; in an address write them as %20 and so on"
            )
    host, _, port = config.listen.rpartition(":")
    if not host or not port.isdecimal():
        raise InstallationError(f"--listen: invalid address {config.listen!r}; write one such as 0.0.0.0:8080")


def keep(installation: Installation, config: ClusterConfig) -> None:
    """Store the settings in the installation."""
    write_whole(installation.directory / CLUSTER_FILE, msgspec.json.format(msgspec.json.encode(config)), 0o600)


def kept(installation: Installation) -> ClusterConfig:
    """Return the stored settings. Raises `InstallationError` if missing."""
    path = installation.directory / CLUSTER_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=ClusterConfig)
    except FileNotFoundError:
        raise InstallationError(
            f"nothing has been written into {installation.directory} yet: `headrace config write` does"
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise InstallationError(f"{path} is damaged: {error}; say it again with `headrace config write`") from None


def environments(installation: Installation, config: ClusterConfig) -> dict[str, dict[str, str]]:
    """Return the environment of each process, by its name; a second instance is `NAME@2`."""
    ca = certificates(installation, config).ca
    base = {URL: ",".join(config.nats), DATA: _place(installation, config)} | ({CA: ca} if ca else {})
    more: dict[str, dict[str, str]] = {
        "accounting": {POSTGRES_DSN: config.postgres, CURRENCY: config.currency},
        "governance": {API: f"unix:{socket_of(installation, config)}"},
        "provisioner": {INSTALLATION: text_digest(f"instances {installation.service('provisioner').password}")[:TAG]},
    }
    found: dict[str, dict[str, str]] = {}
    for number, name in enumerate(sorted(SERVICES)):
        login = installation.service(name)
        own = base | {USER: login.name, PASSWORD: login.password} | more.get(name, {})
        if name in STANDBYS:
            found[f"{name}@1"] = own | {TURN: "first"} | _shown(installation, config, number)
            found[f"{name}@2"] = own | {TURN: "later", INSTANCE: name + STANDBY} | _shown(installation, config, number + COPIES)
        else:
            found[name] = own | _shown(installation, config, number)
    door, system = installation.callout(), installation.callout_system()
    own = base | {USER: door.name, PASSWORD: door.password, SYSTEM_USER: system.name, SYSTEM_PASSWORD: system.password}
    for copy in (1, 2):
        port = len(SERVICES) + (copy - 1) * COPIES
        found[f"{CALLOUT}@{copy}"] = own | {INSTANCE: f"{CALLOUT}-{copy}"} | _shown(installation, config, port)
    for name in config.nodes:
        login = installation.node(name)
        shown = {LISTEN: f"{config.metrics}:{NODE_PORT}", TOKEN: installation.metrics_token()}
        found[f"{NODE}{name}"] = base | {USER: login.name, PASSWORD: login.password} | shown
    return found


def certificates(installation: Installation, config: ClusterConfig) -> Certificates:
    """Return the NATS servers' certificate, its key and the trusted authority, by their paths where services run; or empty."""
    if config.dev_ca:
        place = f"{_place(installation, config)}/{TLS}"
        return Certificates(certificate=f"{place}/server.pem", key=f"{place}/server.key", ca=f"{place}/ca.pem")
    return Certificates(certificate=config.tls_cert, key=config.tls_key, ca=config.tls_ca)


def trust_authority(installation: Installation, config: ClusterConfig) -> None:
    """Let connections of this process trust the authority of these settings, unless the environment names one."""
    if ca := certificates(installation, config).ca:
        os.environ.setdefault(CA, ca)


def nats_configs(installation: Installation, config: ClusterConfig) -> dict[str, str]:
    """Return the configuration of each NATS server, by the server's name, with every login."""
    for name in SERVICES:
        installation.service(name)
    for login in (installation.operator(), installation.owner(), installation.callout(), installation.callout_system()):
        del login  # created if missing
    for name in config.nodes:
        installation.node(name)
    known = [read_login(path) for path in sorted(installation.credentials.glob("*.json"))]
    logins = [Credential(**msgspec.structs.asdict(one)) for one in known if one.kind not in NO_LOGINS_OF_NATS]
    issuer = AccountKey.at(installation.directory / IDENTITY / ISSUER_KEY).public
    files = certificates(installation, config)
    tls = (files.certificate, files.key) if files.certificate else None
    return {
        one.name: server_config(
            logins,
            Path(config.nats_store),
            host=LOOPBACK if one.host in _LOOPBACKS else EVERYWHERE,
            port=one.port,
            server_name=one.name,
            issuer=issuer,
            tls=tls,
            cluster=_routes(installation, config),
        )
        for one in servers(config)
    }


def _routes(installation: Installation, config: ClusterConfig) -> Routes | None:
    """Return what joins several servers; None for a single one."""
    everybody = tuple(f"{one.host}:{ROUTE_PORT}" for one in servers(config))
    if len(everybody) == 1:
        return None
    login = installation.login(ROUTES, ROUTES)
    files = certificates(installation, config)
    tls = (files.certificate, files.key, files.ca) if files.certificate else None
    return Routes(f"{EVERYWHERE}:{ROUTE_PORT}", everybody, login.name, login.password, tls)


def gateway(installation: Installation, config: ClusterConfig) -> str:
    """Return Envoy's configuration. It reads `api.pb` beside it, and finds the API at its socket."""
    from headrace.supervisor.network.gateway import gateway_config  # noqa: PLC0415 - the commands that start nothing need no protobuf

    host, _, port = config.listen.rpartition(":")
    descriptors = f"{_place(installation, config)}/gateway/{installation.descriptors.name}"
    socket = socket_of(installation, config)
    return gateway_config(socket, descriptors, host=host.strip("[]"), port=int(port), local=local_socket_of(socket))


def socket_of(installation: Installation, config: ClusterConfig) -> str:
    """Return the socket on which *governance* serves the gateway beside it."""
    return config.socket or f"{_place(installation, config)}/gateway/api.sock"


def local_socket_of(socket: str) -> str:
    """Return the socket of the gateway for the owner, beside the one of *governance*."""
    return str(Path(socket).with_name(LOCAL_SOCKET))


def write(installation: Installation, config: ClusterConfig) -> list[Path]:
    """Write everything, and store the settings; returns the files. Existing logins and keys are kept."""
    from headrace.contracts.schemas.protocol import descriptors  # noqa: PLC0415 - the same

    check(config)
    installation.prepare()
    keep(installation, config)
    if config.dev_ca:
        names = {LOOPBACK, "localhost", *config.reached_as, *(server.host for server in servers(config))}
        development(installation.directory / TLS, names)
    folder = installation.directory / "env"
    folder.mkdir(mode=0o700, exist_ok=True)
    written: list[Path] = []
    for name, environment in environments(installation, config).items():
        lines = "".join(f"{key}={value}\n" for key, value in sorted(environment.items()))
        written.append(_written(folder / f"{name}.env", lines))
    configs = nats_configs(installation, config)
    for name, text in configs.items():
        written.append(_written(installation.directory / "nats" / f"{name}.conf", text))
    write_whole(installation.descriptors, descriptors().SerializeToString(deterministic=True), 0o644)
    written.append(_written(installation.gateway_config, gateway(installation, config)))
    local = local_socket_of(socket_of(installation, config))
    ca = certificates(installation, config).ca
    installation.write_endpoint(",".join(config.nats), config.api or f"http://{config.listen}", local, ca)
    return [*written, installation.endpoint]


def _written(path: Path, text: str) -> Path:
    write_whole(path, text.encode(), 0o600)
    return path


def _place(installation: Installation, config: ClusterConfig) -> str:
    return config.directory or str(installation.directory)


def _shown(installation: Installation, config: ClusterConfig, number: int) -> dict[str, str]:
    return {LISTEN: f"{config.metrics}:{FIRST_PORT + number}", TOKEN: installation.metrics_token()}
