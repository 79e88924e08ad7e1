"""`headrace config`: files for running the services on other machines, without `headrace up`."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

import msgspec

from headrace.bus.log import LogError, LogUnavailable
from headrace.bus.nats.connection import connect
from headrace.bus.nats.streams import STREAMS
from headrace.cli.arguments import Failed, Nouns, Parser, add_command, add_data_option, currency, names
from headrace.supervisor.cluster import cluster_config
from headrace.supervisor.cluster.cluster_config import ClusterConfig
from headrace.supervisor.cluster.secret import secret
from headrace.supervisor.directories import CLUSTER_FILE
from headrace.supervisor.installation import Installation
from headrace.supervisor.nats.leaderless_stream import Leaderless
from headrace.supervisor.nats.servers import until_streams
from headrace.supervisor.processes.readiness import PATIENCE

if TYPE_CHECKING:
    from headrace.client.endpoint import Login
    from headrace.nats_client.connection import Connection


def add(nouns: Nouns) -> None:
    config: Parser = nouns.add_parser(
        "config",
        help="write the configuration of services that run without `headrace up`",
        description="Write the configuration to run the services without `headrace up`; deploy/README.md shows how it is used.",
        epilog="""examples:
  headrace config write --data /var/lib/headrace --nats nats://127.0.0.1:4222 --postgres postgresql://headrace:secret@db/headrace
  headrace config streams
  headrace config nats headrace-1""",
    )
    verbs = config.add_subparsers(title="verbs", metavar="VERB", required=True, parser_class=Parser)
    _add_write(verbs)
    nats = add_command(
        verbs,
        "nats",
        print_nats,
        "print the configuration of a NATS server; it holds passwords",
        "headrace config nats headrace-1",
    )
    nats.add_argument("server", nargs="?", default="headrace-1", metavar="NAME", help="which (default: headrace-1)")
    add_data_option(nats)
    add_data_option(add_command(verbs, "envoy", print_envoy, "print the configuration of Envoy", "headrace config envoy"))
    secret = add_command(
        verbs,
        "secret",
        print_secret,
        "print the files as a Kubernetes Secret, for the Helm chart; it holds passwords and keys",
        "headrace config secret headrace-config | kubectl apply -f -",
    )
    secret.add_argument(
        "name", nargs="?", default="headrace-config", metavar="NAME", help="its name (default: headrace-config)"
    )
    add_data_option(secret)
    streams = add_command(
        verbs,
        "streams",
        make_streams,
        "create or update the streams on the NATS servers, and recreate FEED if it has no leader; may be repeated",
        "headrace config streams",
    )
    add_data_option(streams)


def _add_write(verbs: Nouns) -> None:
    write = add_command(
        verbs,
        "write",
        write_all,
        "write logins, keys, and the configuration of every process into the data directory",
        """headrace config write --data /var/lib/headrace --nats nats://127.0.0.1:4222 --postgres postgresql://headrace:secret@db/headrace
        headrace config write --nats tls://n1,tls://n2,tls://n3 --tls-cert /etc/nats/server.crt --tls-key /etc/nats/server.key

        Options that are omitted keep their last values. Logins and keys are made once, and kept.""",
    )
    add_data_option(write)
    write.add_argument("--nats", metavar="URL,...", help="addresses of the NATS servers: one, or three as copies of each other")
    write.add_argument("--postgres", metavar="DSN", help="the database for usage and cost")
    write.add_argument("--listen", metavar="ADDRESS:PORT", help="where Envoy serves the API (default: 127.0.0.1:8080)")
    write.add_argument("--api", metavar="URL", help="URL by which clients reach it (default: http:// and --listen)")
    write.add_argument(
        "--as",
        dest="directory",
        metavar="DIR",
        help="path of the directory on the machines where services run (default: the same)",
    )
    write.add_argument(
        "--socket", metavar="PATH", help="socket between governance and Envoy (default: gateway/api.sock in the directory)"
    )
    write.add_argument("--nats-store", metavar="DIR", help="where the NATS servers keep their streams (default: /var/lib/nats)")
    write.add_argument("--tls-cert", metavar="FILE", help="the certificate of the NATS servers, by its path there")
    write.add_argument("--tls-key", metavar="FILE", help="its key")
    write.add_argument("--tls-ca", metavar="FILE", help="the certificate authority to trust, by its path on all machines")
    write.add_argument(
        "--dev-ca",
        action="store_true",
        default=None,
        help="make a private authority and the servers' certificate in tls/ of the directory; give tls/ca.pem to other machines",
    )
    write.add_argument(
        "--reached-as",
        type=names,
        metavar="NAME,...",
        help="further names and addresses by which other machines reach the NATS servers, for that certificate",
    )
    write.add_argument(
        "--simulated-nodes",
        dest="nodes",
        type=names,
        metavar="NAME,...",
        help="simulated nodes: each gets a login in the servers' configuration, and env/node-NAME.env",
    )
    write.add_argument(
        "--metrics",
        metavar="ADDRESS",
        help="address of the processes' health and metrics (default: 127.0.0.1; one port each from 9101 on)",
    )
    write.add_argument("--currency", type=currency, metavar="ISO", help="currency of prices, such as EUR (default: USD)")
    write.add_argument(
        "--in-the-clear",
        action="store_true",
        default=None,
        help="allow NATS on other machines without TLS, because the network is private",
    )


CONFIG_OPTIONS = (
    "postgres",
    "listen",
    "api",
    "directory",
    "socket",
    "nats_store",
    "tls_cert",
    "tls_key",
    "tls_ca",
    "metrics",
    "currency",
    "in_the_clear",
    "dev_ca",
    "reached_as",
    "nodes",
)


def write_all(args: argparse.Namespace) -> int:
    """Write the files and print the next step."""
    installation = Installation(args.data)
    given = {name: getattr(args, name) for name in CONFIG_OPTIONS if getattr(args, name) is not None}
    if args.nats is not None:
        given["nats"] = tuple(url for url in args.nats.split(",") if url)
    if (installation.directory / CLUSTER_FILE).exists():
        whole = msgspec.structs.replace(cluster_config.kept(installation), **given)
    elif missing := [f"--{name}" for name in ("nats", "postgres") if name not in given]:
        raise Failed(f"{' and '.join(missing)}: required; `headrace config write --help` shows how")
    else:
        whole = ClusterConfig(**given)
    for path in cluster_config.write(installation, whole):
        print(path)
    streams = f"headrace config streams --data {installation.directory}"
    print(f"\nNext: start the NATS servers with nats/*.conf, then `{streams}`, then the services; deploy/README.md shows it.")
    return 0


def print_nats(args: argparse.Namespace) -> int:
    """Print the configuration of one NATS server."""
    installation = Installation(args.data)
    found = cluster_config.nats_configs(installation, cluster_config.kept(installation))
    if args.server not in found:
        raise Failed(f"{args.server}: unknown server; choose one of {', '.join(found)}")
    print(found[args.server], end="")
    return 0


def print_secret(args: argparse.Namespace) -> int:
    """Print the Secret as JSON, which kubectl takes."""
    installation = Installation(args.data)
    cluster_config.kept(installation)
    print(msgspec.json.format(msgspec.json.encode(secret(installation, args.name))).decode())
    return 0


def print_envoy(args: argparse.Namespace) -> int:
    """Print the configuration of Envoy."""
    installation = Installation(args.data)
    print(cluster_config.gateway(installation, cluster_config.kept(installation)), end="")
    return 0


async def make_streams(args: argparse.Namespace) -> int:
    """Create or update the streams, with a replica on each server, three at most."""
    installation = Installation(args.data)
    config = cluster_config.kept(installation)
    cluster_config.trust_authority(installation, config)
    url, replicas = ",".join(config.nats), min(3, len(config.nats))
    try:
        connection = await _reach(url, installation.operator())
        try:
            await until_streams(connection, replicas)
            if replicas > 1:
                await Leaderless(connection, replicas, print).until_led()
        finally:
            await connection.close()
    except LogUnavailable as error:
        raise Failed(
            f"{error}. It takes {'most of the NATS servers' if replicas > 1 else 'the NATS server'} at {url}"
        ) from None
    except LogError as error:
        raise Failed(str(error)) from None
    print(f"{', '.join(STREAMS)}: ready, {'one copy' if replicas == 1 else f'{replicas} copies'} of each message")
    return 0


async def _reach(url: str, login: Login) -> Connection:
    """Connection to servers that may still be starting. Raises `LogUnavailable`, `LogRefused`."""
    try:
        async with asyncio.timeout(PATIENCE):
            return await connect(url, login.name, login.password, name="headrace config")
    except TimeoutError:
        raise LogUnavailable(f"no NATS server has answered within {PATIENCE:g} s: start them with nats/*.conf first") from None
