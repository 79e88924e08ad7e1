"""Parses and checks the arguments of `headrace node run`; the resulting settings are valid."""

from __future__ import annotations

import argparse
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from headrace.contracts.messages.orders import ADDRESS
from headrace.contracts.messages.tokens import TokenRole, read_bearer
from headrace.contracts.values.amounts import CPU, MEMORY, AmountError, parse_amount
from headrace.contracts.values.durations import DurationError, parse_duration
from headrace.contracts.values.ids import is_token
from headrace.nats_client.connection import Address
from headrace.node_executor.devices import Devices, DevicesUnknown
from headrace.node_executor.devices.discovery import find_devices
from headrace.node_executor.self_end import Limits
from headrace.node_executor.system.accounts import AUTO, Accounts, AccountUnknown, chosen

URL = "HEADRACE_NATS_URL"
USER = "HEADRACE_NATS_USER"
PASSWORD = "HEADRACE_NATS_PASSWORD"  # noqa: S105 - the name of the variable

OF_NODES = (TokenRole.NODE, TokenRole.INSTANCE)
LEAVE, END = "leave", "end"
DENY, ALLOW = "deny", "allow"
EC2 = "ec2"
"""Notices come from the metadata service of EC2."""
MIB = 1024 * 1024
_LABEL = re.compile(r"([A-Za-z0-9][A-Za-z0-9._/-]{0,127})=([A-Za-z0-9._-]{0,127})")
_ADDRESS = re.compile(r"[A-Za-z0-9._-]{1,127}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_LOGIN = f"""\
On the machine of an installation the node gets a login by itself. Elsewhere set
  {URL}       to the address of NATS,
  {USER}      to node_NAME, and
  {PASSWORD}  to a token, as `headrace token create --node NAME` prints it there.
"""
_EXAMPLES = """\
examples:
  headrace node run --labels site=hq --devices sim:8xH100-80GB
  headrace node run --name slices --labels site=mig --devices sim:2xH100-80GB+mig
  headrace node run --name big --labels site=hq,rack=r7 --data /var/lib/headrace-node --cpus 96 --memory 1TiB
  HEADRACE_NATS_URL=... HEADRACE_NATS_USER=... HEADRACE_NATS_PASSWORD=... headrace node run      for a Headrace elsewhere
"""

T = TypeVar("T")


class Settings(NamedTuple):
    """Settings of this executor. Durations in seconds, `memory` in MiB, `cpu` in millicores, sizes in bytes."""

    name: str
    data: str
    labels: dict[str, str]
    devices: Devices
    cpu: int
    memory: int
    checkpoints: str
    secrets: str
    pass_env: tuple[str, ...]
    output_limit: int
    keep: float
    keep_logs: int
    containers: str
    run_as: str
    limits: str
    metadata: str
    pids: int
    work_limit: int
    work_files: int
    on_stop: str
    stop_grace: float
    heartbeat: float
    ask_every: float
    address: Address
    limits_of_instance: Limits = Limits()
    power_off: str = ""


def parse(argv: Sequence[str] | None, environ: Mapping[str, str]) -> Settings:
    """Return the settings; exits with code 2 and one line on stderr if an argument is invalid."""
    parser = _parser()
    given = parser.parse_args(argv)
    try:
        Accounts(chosen(given.run_as, given.data)[0])
    except AccountUnknown as error:
        parser.error(f"argument --run-as: {error}")
    if wrong := another_name(given.name, environ.get(PASSWORD, "")):
        parser.error(f"argument --name: {wrong}")
    data = os.path.abspath(given.data)
    return Settings(
        name=given.name,
        data=data,
        labels={ADDRESS: given.address, **{name: value for part in given.labels for name, value in part.items()}},
        devices=given.devices,
        cpu=given.cpus,
        memory=given.memory,
        checkpoints=os.path.abspath(given.checkpoints) if given.checkpoints else "",
        secrets=os.path.abspath(given.secrets) if given.secrets else f"{data}/secrets",
        pass_env=tuple(given.pass_env),
        output_limit=given.output_limit * MIB,
        keep=given.keep,
        keep_logs=given.keep_logs * MIB,
        containers=given.containers,
        run_as=given.run_as,
        limits=given.limits,
        metadata=given.metadata,
        pids=given.pids,
        work_limit=given.work_limit * MIB,
        work_files=given.work_files,
        on_stop=given.on_stop,
        stop_grace=given.stop_grace,
        heartbeat=given.heartbeat,
        ask_every=given.ask_every,
        limits_of_instance=Limits(given.join_within, given.orphan_after, given.max_life, given.notice),
        power_off=given.power_off,
        address=Address(environ.get(URL, "nats://127.0.0.1:4222"), environ.get(USER, ""), environ.get(PASSWORD, "")),
    )


def another_name(name: str, token: str) -> str:
    """Return what is wrong if the token is not for this node; otherwise ""."""
    bearer = read_bearer(token)
    if bearer is None or (bearer.role in OF_NODES and bearer.handle == name):
        return ""
    if bearer.role not in OF_NODES:
        return f"this node is called {name}, and the token in {PASSWORD} is of {bearer.role} {bearer.handle}: give it a node's token"
    return f"this node is called {name}, and the token in {PASSWORD} is of node {bearer.handle}: say --name {bearer.handle}"


def node_name(hostname: str) -> str:
    """Return a valid node name made from a host's name: `GPU01.hq` becomes `gpu01-hq`."""
    return re.sub(r"[^a-z0-9-]+", "-", hostname.lower()).strip("-")[:63] or "node"


def labels(text: str) -> dict[str, str]:
    """Parse `site=hq,rack=r7`. Raises `ValueError` if malformed."""
    found = {}
    for part in text.split(",") if text else ():
        match = _LABEL.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"invalid label {part.strip()!r}; write name=value, as in site=hq,rack=r7")
        found[match[1]] = match[2]
    return found


def _parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="headrace node",
        description="The node executor: runs what was granted to this machine, on exactly the devices granted.",
        epilog=f"The bus is found by {URL}, {USER} and {PASSWORD}.\n\n{_EXAMPLES}",
        formatter_class=raw,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser(
        "run",
        help="run the executor until it is told to stop",
        description="Run the node executor here, until SIGTERM or Ctrl-C.",
        epilog=f"{_LOGIN}\n{_EXAMPLES}",
        formatter_class=raw,
    )
    for add in (_add_what_it_offers, _add_files, _add_jobs, _add_its_end, _add_intervals):
        add(run)
    return parser


def _add_what_it_offers(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("the node, and what it offers")
    host = node_name(socket.gethostname())
    _add(run, "--name", _name, host, "NAME", "the node's name (default: from the hostname)")
    address = socket.gethostname() if _ADDRESS.fullmatch(socket.gethostname()) else host
    _add(run, "--address", _address, address, "HOST", "where other nodes reach this one (default: its hostname)")
    _add(run, "--labels", labels, [], "K=V,...", "what pools select nodes by; may be repeated", action="append")
    _add(
        run,
        "--devices",
        find_devices,
        "auto",
        "KIND",
        "auto, nvml, amd, sim:8xH100-80GB[+mig][+busyPERCENT] or none (default: auto)",
    )
    _add(run, "--cpus", _cpus, (os.cpu_count() or 1) * 1000, "N", "CPUs to offer (default: all)")
    _add(run, "--memory", _mebibytes, _memory(), "SIZE", "memory to offer, as in 256GiB (default: all)")


def _add_files(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("its files")
    where = "where everything of this node lies (default: in the installation's data directory if it is on this machine, else "
    _add(run, "--data", str, "headrace-node", "DIR", f"{where}./headrace-node)")
    _add(run, "--checkpoints", str, "", "DIR", "a directory for checkpoints that all nodes share (default: in --data)")
    _add(run, "--secrets", str, "", "DIR", "files DIR/TENANT/NAME with the values of --secret-env (default: in --data)")
    _add(run, "--output-limit", _mebibytes, 64, "SIZE", "output kept of each attempt (default: 64MiB)")
    _add(run, "--keep", _seconds, 7 * 86400.0, "SPAN", "how long logs and files are kept (default: 7d)")
    logs = "all logs together, divided equally among the tenants that have some (default: 4GiB)"
    _add(run, "--keep-logs", _mebibytes, 4096, "SIZE", logs)
    _add(run, "--work-limit", _mebibytes, 100 * 1024, "SIZE", "what a private working directory may take (default: 100GiB)")
    _add(run, "--work-files", int, 2_000_000, "N", "how many files that may have in it (default: 2000000)")


def _add_jobs(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("its jobs")
    who = "own (an account for each user), self, or a name (default: own for root, if it can)"
    _add(run, "--run-as", str, AUTO, "WHO", who)
    run.add_argument(
        "--limits",
        choices=("auto", "off", "required"),
        default="auto",
        help="hold jobs to their CPU, memory and processes by control groups: where that can be done (default), never, or always",
    )
    run.add_argument(
        "--metadata",
        choices=(DENY, ALLOW),
        default=DENY,
        help="the metadata service of a cloud: denied to jobs that have accounts of their own, by nftables (default), or left to them",
    )
    _add(run, "--pids", int, 16_384, "N", "processes and threads that a replica may have (default: 16384)")
    _add(run, "--containers", str, "auto", "SOCKET", "of Docker or Podman, for jobs with an image; auto or off (default: auto)")
    _add(run, "--pass-env", _variable, [], "NAME", "a variable that every job gets; may be repeated", action="append")
    run.add_argument(
        "--on-stop",
        choices=(LEAVE, END),
        default=LEAVE,
        help="what becomes of jobs when the executor stops: leave them running for the next one, as for an upgrade (default), or end them; "
        "when the machine is being shut down (systemd), they are ended",
    )
    _add(run, "--stop-grace", _seconds, 10.0, "SPAN", "what jobs get when they are ended so (default: 10s)")


def _add_its_end(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("when it ends by itself, as an instance of a cloud")
    _add(run, "--join-within", _seconds, 0.0, "SPAN", "end if the node has not joined by then (default: never)")
    _add(run, "--orphan-after", _seconds, 0.0, "SPAN", "end after so long without the bus and without a job (default: never)")
    _add(run, "--max-life", _seconds, 0.0, "SPAN", "end at this age, whatever runs (default: never)")
    _add(run, "--notice", str, "", "FILE", "where the provider says that it takes the machine back, or ec2 (default: nowhere)")
    _add(run, "--power-off", str, "", "COMMAND", "what to run when it has ended by itself, as in 'systemctl poweroff'")


def _add_intervals(parser: argparse.ArgumentParser) -> None:
    run = parser.add_argument_group("how often it speaks")
    _add(run, "--heartbeat", _seconds, 5.0, "SPAN", "between signs of life (default: 5s)")
    _add(run, "--ask-every", _seconds, 15.0, "SPAN", "between questions what should run (default: 15s)")


def _add(
    run: argparse._ArgumentGroup,
    name: str,
    read: Callable[[str], object],
    default: object,
    shown: str,
    text: str,
    action: str = "store",
) -> None:
    run.add_argument(name, type=_checked(read), default=default, metavar=shown, help=text, action=action)


def _checked(read: Callable[[str], T]) -> Callable[[str], T]:
    """Wrap `read` for argparse, which shows messages of its own class of error only."""

    def reader(text: str) -> T:
        try:
            return read(text)
        except (AmountError, DurationError, DevicesUnknown, ValueError) as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return reader


def _name(text: str) -> str:
    if not is_token(text):
        raise ValueError(f"invalid node name {text!r}; write 1 to 63 of a-z, 0-9 and '-', such as {node_name(text)}")
    return text


def _address(text: str) -> str:
    if _ADDRESS.fullmatch(text) is None:
        raise ValueError(f"invalid host {text!r}; write a name or an IPv4 address, as in gpu01.example or 10.0.0.7")
    return text


def _variable(text: str) -> str:
    if _VARIABLE.fullmatch(text) is None or text.startswith("HEADRACE_"):
        raise ValueError(f"{text!r} cannot be passed on to jobs")
    return text


def _cpus(text: str) -> int:
    return parse_amount(CPU, text)


def _mebibytes(text: str) -> int:
    return parse_amount(MEMORY, text)


def _seconds(text: str) -> float:
    return parse_duration(text) / 1_000_000


def _memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // MIB
