"""A network namespace of its own with a metadata service in it, and programs run there. Takes root."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.contracts.own_accounts import mapped
from tests.patience import PATIENCE

CLONE_NEWNET = 0x40000000

ADDRESS = "169.254.169.254"

REACHES = f"""
import socket
try:
    socket.create_connection(("{ADDRESS}", PORT), 10).close()
    print("reached")
except ConnectionRefusedError:
    print("refused")
"""
"""Python: say whether the metadata service can be reached."""

_SERVICE = f"""
import socket, time
servers = [socket.create_server(("{ADDRESS}", port)) for port in (80, 53)]
print("ready", flush=True)
time.sleep(86_400)
"""


def _why_not() -> str:
    missing = [program for program in ("nft", "ip", "unshare", "nsenter") if shutil.which(program) is None]
    if missing:
        return f"{missing[0]} is missing"
    if os.geteuid() != 0:
        return "only root can make one"
    if not mapped():
        return "the numbers of users' own accounts are not mapped into this user namespace"
    asked = "unshare --net sh -c 'nft add table inet tried && ip link set lo up'"
    tried = subprocess.run(["sh", "-c", asked], capture_output=True, text=True, timeout=PATIENCE, check=False)
    return f"namespaces or nftables do not work here: {tried.stderr.strip()[-200:]}" if tried.returncode else ""


WHY_NOT = _why_not()
"""Why there can be none here; empty if there can."""


@contextmanager
def private_network() -> Iterator[tuple[str, ...]]:
    """The words before a command that is to run in the namespace."""
    with _namespace(
        f"ip link set lo up && ip addr add {ADDRESS}/32 dev lo && exec {sys.executable} -c '{_SERVICE}'", "net"
    ) as within:
        yield within


def why_no_namespaces() -> str:
    """Why no namespaces can be made here; empty if they can."""
    asked = ["unshare", "--net", "--mount", "ip", "link", "set", "lo", "up"]
    if missing := [program for program in ("unshare", "ip") if shutil.which(program) is None]:
        return f"{missing[0]} is missing"
    return subprocess.run(asked, capture_output=True, text=True, check=False).stderr.strip()[-200:]


@contextmanager
def place_of_engine(*, own_network: bool) -> Iterator[tuple[str, ...]]:
    """The words before a container engine and its commands; empty where namespaces cannot be made.

    It has directories of its own for the addresses that it has given out and for the ends of its containers: engines of one machine share
    them, and remove them as they end. If asked for, it has its own network.
    """
    own = " && ".join(f"mkdir -p {folder} && mount -t tmpfs tmpfs {folder}" for folder in ("/run/containers", "/run/libpod"))
    program = f"{own} && ip link set lo up && echo ready && exec sleep 86400"
    kinds = ("mount", "net") if own_network else ("mount",)
    if why_no_namespaces():
        yield ()
        return
    with _namespace(program, *kinds) as within:
        yield within


@contextmanager
def entered(within: tuple[str, ...]) -> Iterator[None]:
    """This thread, and the programs that it starts, are in the namespace that these words name."""
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    there = os.open(within[1].removeprefix("--net="), os.O_RDONLY | os.O_CLOEXEC)
    library = ctypes.CDLL(None, use_errno=True)
    assert library.setns(there, CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        assert library.setns(here, CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        os.close(here)
        os.close(there)


@contextmanager
def _namespace(program: str, *kinds: str) -> Iterator[tuple[str, ...]]:
    """Namespaces of these kinds with a shell's program that prints `ready` and stays."""
    asked = ["unshare", *(f"--{kind}" for kind in kinds), "sh", "-c", program]
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) as keeps:
        try:
            assert keeps.stdout is not None
            assert keeps.stdout.readline() == "ready\n"
            files = {"net": "net", "mount": "mnt"}
            yield shutil.which("nsenter") or "nsenter", *(f"--{kind}=/proc/{keeps.pid}/ns/{files[kind]}" for kind in kinds)
        finally:
            keeps.kill()
