"""What an instance of a cloud does when it starts: a script for its user data, which any image with systemd, nftables and Headrace runs.

It ends the instance if anything goes wrong, because it would cost money without being of use: if a step fails, if the executor cannot be
kept running, or if it does not run in time. It also keeps jobs from the metadata service, which hands out this script and the rights of
the instance.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.provisioner.providers import Order

PROGRAM = "/opt/headrace/bin/headrace node"
DATA = "/var/lib/headrace-node"
POWER_OFF = "systemctl poweroff"

ARGUMENTS = ("--data", DATA, "--power-off", POWER_OFF)
"""Arguments of executors on instances that this script sets up."""

_SCRIPT = """\
#!/bin/sh
# Instance {instance} of pool {pool}. Made by Headrace.
set -eu
umask 077
trap '{power_off}' EXIT
systemd-run --quiet --unit headrace-deadline --on-active={ends_within}s \\
  /bin/sh -c 'systemctl --quiet is-active headrace-instance || {power_off}'
nft -f - <<'RULES'
table inet headrace {{
  chain out {{
    type filter hook output priority 0;
    ip daddr 169.254.169.254 meta skuid != 0 reject
    ip6 daddr fd00:ec2::254 meta skuid != 0 reject
  }}
  chain through {{
    type filter hook forward priority 0;
    ip daddr 169.254.169.254 reject
    ip6 daddr fd00:ec2::254 reject
  }}
}}
RULES
mkdir -p /etc/headrace
cat > /etc/headrace/instance.env <<'VARIABLES'
{variables}
VARIABLES
cat > /etc/systemd/system/headrace-instance.service <<'UNIT'
[Unit]
Description=Headrace on this instance; when it has stopped, the instance ends
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=600
StartLimitBurst=60
StartLimitAction=poweroff
SuccessAction=poweroff
FailureAction=poweroff

[Service]
Type=exec
EnvironmentFile=/etc/headrace/instance.env
ExecStart={command}
Restart=on-failure
RestartSec=2
RestartPreventExitStatus=2
KillMode=process
Delegate=yes
TimeoutStopSec=30
LimitNOFILE=65536
UMask=0077

[Install]
WantedBy=multi-user.target
UNIT
mkdir -p {data}
chmod 711 {data}
systemctl daemon-reload
systemctl enable --now headrace-instance
trap - EXIT
"""


def first_boot(order: Order) -> str:
    """The script. The same order gives the same script, so that a repeated call is the same call."""
    command = " ".join(_quoted(part) for part in (*PROGRAM.split(), *order.arguments))
    return _SCRIPT.format(
        instance=order.instance,
        pool=order.pool,
        power_off=POWER_OFF,
        ends_within=order.ends_within,
        variables="\n".join(f"{name}={shlex.quote(value)}" for name, value in sorted(order.environment.items())),
        command=command,
        data=DATA,
    )


def _quoted(part: str) -> str:
    """A word of a unit's command: systemd reads `%` and `$` in it, and blanks between words."""
    escaped = part.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if not part or any(mark in part for mark in " '\";") else escaped
