"""Keeps jobs from the metadata service of a cloud, which hands out the user data of the machine and the rights of its role.

The rule is one of nftables for the accounts of jobs. It holds in containers as well, because they have the machine's network. Like jobs, it
outlasts the executor. Port 53 stays open: with some clouds the same address answers for names.
"""

from __future__ import annotations

import subprocess

IPV4, IPV6 = ("169.254.169.254",), ("fd00:ec2::254", "fd20:ce::254")
"""Addresses of metadata services: of nearly every cloud, and those that Amazon and Google have besides."""

PATIENCE = 10.0

_RULES = """\
add table inet {table}
delete table inet {table}
table inet {table} {{
  chain out {{
    type filter hook output priority 0; policy accept;
    meta skuid {accounts} meta l4proto {{ tcp, udp }} th dport 53 accept
    meta skuid {accounts} ip daddr {{ {ipv4} }} reject
    meta skuid {accounts} ip6 daddr {{ {ipv6} }} reject
  }}
}}
"""


def rules(first: int, last: int) -> str:
    """The rules for accounts with these numbers, which replace earlier ones in one step."""
    accounts, table = (f"{first}-{last}", "headrace_jobs") if first != last else (f"{first}", f"headrace_jobs_{first}")
    return _RULES.format(table=table, accounts=accounts, ipv4=", ".join(IPV4), ipv6=", ".join(IPV6))


def deny(accounts: tuple[int, int]) -> str:
    """Deny the addresses to accounts from the first number to the last; returns why that is not possible, empty if it is done."""
    try:
        done = subprocess.run(
            ["nft", "-f", "-"],  # noqa: S607 - wherever the system has it
            input=rules(*accounts),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except FileNotFoundError:
        return "nft is missing"
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return f"nft: {(done.stderr.strip().splitlines() or [f'status {done.returncode}'])[0]}" if done.returncode else ""
