"""Machines that one owns, for provider `ssh`: the file that lists them, and how one that sleeps is woken."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
from typing import TYPE_CHECKING

import msgspec

from headrace.contracts.documents.tree import DocumentErrors
from headrace.contracts.documents.yaml_text import read_tree
from headrace.provisioner.providers import ProviderAway

if TYPE_CHECKING:
    from pathlib import Path

FILE = "machines.yaml"
PROGRAM = "/opt/headrace/bin/headrace node"
DIRECTORY = "/var/lib/headrace-instances"

WAKE_PORT = 9
HOOK_WITHIN = 30.0
"""Seconds that a command which wakes a machine may take."""


class OwnedMachine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One machine. What is empty is as `Machines` has it.

    `address`, `port`, `user`: of its SSH server. `type`: offers name it. `mac`: it is woken by Wake-on-LAN; `wake`: a command that wakes
    it, run beside the provisioner; without both it is expected to be on. `sleep`: a command that is run on it when its instance has ended.
    `directory`: what instances keep there. `program`, `arguments`: of the node executor.
    """

    name: str
    address: str = ""
    port: int = 22
    type: str = ""
    user: str = ""
    mac: str = ""
    wake: str = ""
    sleep: str = ""
    directory: str = ""
    program: str = ""
    arguments: str = ""

    @property
    def can_be_woken(self) -> bool:
        """Whether there is a way to switch it on."""
        return bool(self.mac or self.wake)


class Machines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file. `key`: file with the private key; `known_hosts`: file with the keys of the machines.

    `wake_within`: seconds after which a machine that was woken and does not answer is passed over. `broadcast`: where packets that wake
    machines are sent.
    """

    key: str
    known_hosts: str
    machines: tuple[OwnedMachine, ...]
    user: str = "root"
    sleep: str = ""
    directory: str = DIRECTORY
    program: str = PROGRAM
    arguments: str = ""
    wake_within: int = 600
    broadcast: str = "255.255.255.255"


def read_machines(path: Path) -> Machines:
    """The machines, each with all its settings. Raises ProviderAway, which names the file, if it cannot be used."""
    try:
        found = msgspec.convert(read_tree(path.read_text("utf-8")).value, Machines, strict=False)
    except FileNotFoundError:
        raise ProviderAway(f"{path}: missing; list the machines there (docs/providers.md)") from None
    except DocumentErrors as wrong:
        raise ProviderAway(f"{path}: {wrong.errors[0]}") from None
    except (OSError, UnicodeError, msgspec.ValidationError) as error:
        raise ProviderAway(f"{path}: {error}") from None
    names = [one.name for one in found.machines]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise ProviderAway(f"{path}: two machines are named {twice!r}; give each a name of its own")
    for key in ("key", "known_hosts"):
        if not os.access(getattr(found, key), os.R_OK):
            raise ProviderAway(f"{path}: {key}: {getattr(found, key)} cannot be read")
    defaults = {key: getattr(found, key) for key in ("user", "sleep", "directory", "program", "arguments")}
    complete = (
        msgspec.structs.replace(
            one,
            address=one.address or one.name,
            **{key: getattr(one, key) or value for key, value in defaults.items()},
        )
        for one in found.machines
    )
    return msgspec.structs.replace(found, machines=tuple(complete))


async def wake(machine: OwnedMachine, broadcast: str) -> None:
    """Switch a machine on. Raises ProviderAway if its command fails; whether it then answers is for the caller to see."""
    if not machine.wake:
        await asyncio.to_thread(_send_packet, machine, broadcast)
        return
    try:
        process = await asyncio.create_subprocess_exec(
            *shlex.split(machine.wake),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except (OSError, ValueError) as error:
        raise ProviderAway(f"{machine.name}: wake: {error}") from None
    try:
        async with asyncio.timeout(HOOK_WITHIN):
            _, complaint = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise ProviderAway(f"{machine.name}: wake: it has not ended within {HOOK_WITHIN:g} s") from None
    if process.returncode:
        raise ProviderAway(f"{machine.name}: wake: {complaint.decode(errors='replace').strip()[:200] or process.returncode}")


def wake_packet(mac: str) -> bytes:
    """The packet of Wake-on-LAN: six bytes of ones, and the address sixteen times. Raises ValueError if it is malformed."""
    digits = mac.replace(":", "").replace("-", "")
    if len(digits) != 12 or not set(digits.lower()) <= set("0123456789abcdef"):
        raise ValueError(f"{mac!r} is not an address such as 0c:42:a1:00:00:01")
    return b"\xff" * 6 + bytes.fromhex(digits) * 16


def _send_packet(machine: OwnedMachine, broadcast: str) -> None:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            sender.sendto(wake_packet(machine.mac), (broadcast, WAKE_PORT))
    except (OSError, ValueError) as error:
        raise ProviderAway(f"{machine.name}: mac: {error}") from None
