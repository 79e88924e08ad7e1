"""A network namespace of its own with a metadata service in it, and programs run there. Takes root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.contracts.own_accounts import mapped
from tests.patience import PATIENCE

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
    prepare = f"ip link set lo up && ip addr add {ADDRESS}/32 dev lo && exec {sys.executable} -c '{_SERVICE}'"
    with subprocess.Popen(["unshare", "--net", "sh", "-c", prepare], stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            assert service.stdout.readline() == "ready\n"
            yield "nsenter", f"--net=/proc/{service.pid}/ns/net"
        finally:
            service.kill()
