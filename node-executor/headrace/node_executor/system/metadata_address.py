"""Keeps jobs from the metadata service of a cloud, which hands out the user data of the machine and the rights of its role.

The rules are ones of nftables. One is for the accounts of jobs, as processes and in containers that have the machine's network. The other
is for what comes from the bridge of containers that have a network of their own, which the machine forwards, or takes in if something on
it plays the service, perhaps under another address. Like jobs, they outlast the executor. Port 53 stays open: with some clouds the same
address answers for names.
"""

from __future__ import annotations

import subprocess

IPV4, IPV6 = ("169.254.169.254",), ("fd00:ec2::254", "fd20:ce::254")
"""Addresses of metadata services: of nearly every cloud, and those that Amazon and Google have besides."""

BRIDGE = "headrace0"
"""Interface of the network of containers that have one of their own."""

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

_RULES_BEHIND = """\
add table inet headrace_containers
delete table inet headrace_containers
table inet headrace_containers {{
  chain in {{
    type filter hook input priority 0; policy accept;
    iifname "{interface}" jump metadata
  }}
  chain through {{
    type filter hook forward priority 0; policy accept;
    iifname "{interface}" jump metadata
  }}
  chain metadata {{
    meta l4proto {{ tcp, udp }} th dport 53 accept
    ip daddr {{ {ipv4} }} reject
    ip6 daddr {{ {ipv6} }} reject
    ct original ip daddr {{ {ipv4} }} reject
    ct original ip6 daddr {{ {ipv6} }} reject
  }}
}}
"""


def rules(first: int, last: int) -> str:
    """The rules for accounts with these numbers, which replace earlier ones in one step."""
    accounts, table = (f"{first}-{last}", "headrace_jobs") if first != last else (f"{first}", f"headrace_jobs_{first}")
    return _RULES.format(table=table, accounts=accounts, ipv4=", ".join(IPV4), ipv6=", ".join(IPV6))


def rules_behind(interface: str) -> str:
    """The rules for what comes from this interface, which replace earlier ones in one step."""
    return _RULES_BEHIND.format(interface=interface, ipv4=", ".join(IPV4), ipv6=", ".join(IPV6))


def deny(accounts: tuple[int, int]) -> str:
    """Deny the addresses to accounts from the first number to the last; returns why that is not possible, empty if it is done."""
    return _state(rules(*accounts))


def deny_behind_bridge() -> str:
    """Deny the addresses to containers with a network of their own; returns as `deny`. The bridge may be made later."""
    return _state(rules_behind(BRIDGE))


def _state(text: str) -> str:
    try:
        done = subprocess.run(
            ["nft", "-f", "-"],  # noqa: S607 - wherever the system has it
            input=text,
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
