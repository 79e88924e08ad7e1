"""Partitions, in a network namespace of our own: what a process says and hears is dropped by the kernel, and nothing is closed.

Strategy: of the process that is cut off, every TCP port it uses is kept in two sets of nftables; packets from or to one of them are
dropped. A process that tries to come back uses a new port, which is cut off as soon as it is seen (40 times a second), so that it may
send a few packets: a network that flaps. Data that is on its way is sent again by TCP when the partition is over, or the connection is
given up by the side that misses the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess

import psutil

LOOK_EVERY = 0.025
TABLE = "inet chaos"

RULES = f"""
add table {TABLE}
add set {TABLE} cut {{ type inet_service; }}
add chain {TABLE} drops {{ type filter hook output priority 0; }}
add rule {TABLE} drops tcp sport @cut drop
add rule {TABLE} drops tcp dport @cut drop
"""


def why_not() -> str:
    """Why there can be no partitions here; empty where there can."""
    nft = shutil.which("nft")
    if nft is None:
        return "nft is not installed (Debian: apt install nftables)"
    done = subprocess.run([nft, "-f", "-"], input=RULES, capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[0] if done.returncode else ""


async def cut_off(pid: int, seconds: float) -> None:
    """This process is cut off from all others, for a time or until it is gone."""
    deadline = asyncio.get_running_loop().time() + seconds
    known: set[int] = set()
    try:
        while asyncio.get_running_loop().time() < deadline:
            try:
                found = await asyncio.to_thread(_ports, pid)
            except psutil.Error:
                return
            if new := found - known:
                known |= new
                await _nft(f"add element {TABLE} cut {{ {', '.join(map(str, sorted(new)))} }}")
            await asyncio.sleep(LOOK_EVERY)
    finally:
        await _nft(f"flush set {TABLE} cut")


def _ports(pid: int) -> set[int]:
    sockets = psutil.Process(pid).net_connections("tcp")
    return {socket.laddr.port for socket in sockets if socket.laddr}


async def _nft(command: str) -> None:
    process = await asyncio.create_subprocess_exec("nft", command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with contextlib.suppress(ProcessLookupError):
        await process.wait()
