"""docs/security.md: jobs on an instance of EC2 cannot reach its metadata service. The rules that instances load, in network namespaces.

Three of them: the instance, with the rules; something behind it with a network of its own; and the metadata service, one hop away.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from headrace.contracts.values.account_numbers import FIRST
from headrace.node_executor.system.metadata_address import rules_behind
from headrace.provisioner.providers.boot import first_boot
from tests.patience import PATIENCE
from tests.unit.provisioner.providers.clouds import order_of

NEEDED = ("nft", "ip", "unshare", "nsenter")
pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, NEEDED)), reason=f"needs root and {', '.join(NEEDED)}"
)

SERVES = """
import socket, sys, threading
def serve(family, address):
    server = socket.create_server((address, 80), family=family)
    while True:
        server.accept()[0].close()
for family, address in ((socket.AF_INET, "169.254.169.254"), (socket.AF_INET6, "fd00:ec2::254")):
    threading.Thread(target=serve, args=(family, address)).start()
"""
ASKS = """
import json, os, socket, sys
if len(sys.argv) > 1:
    os.setgroups([])
    os.setgid(int(sys.argv[1]))
    os.setuid(int(sys.argv[1]))
def reached(address):
    try:
        socket.create_connection((address, 80), timeout=60).close()
    except OSError as error:
        return type(error).__name__
    return "reached"
print(json.dumps([reached("169.254.169.254"), reached("fd00:ec2::254")]))
"""
REACHED, REFUSED = ["reached"] * 2, ["ConnectionRefusedError"] * 2
NETWORKS = """\
set -eu
ip link set lo up
unshare --net sleep 1000 & service=$!
unshare --net sleep 1000 & behind=$!
inside() { nsenter --target $1 --net "${@:2}"; }
for one in $service $behind; do until [ "$(readlink /proc/$one/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done; done
link() { # of which namespace, its addresses, and ours on the link
  ip link add out$1 type veth peer name in$1
  ip link set in$1 netns $2
  inside $2 ip link set in$1 up; ip link set out$1 up
  inside $2 ip addr add $3 dev in$1; inside $2 ip addr add $4 dev in$1 nodad
  ip addr add $5 dev out$1; ip addr add $6 dev out$1 nodad
}
link 1 $service 169.254.169.254/24 fd00:ec2::254/64 169.254.169.1/24 fd00:ec2::1/64
link 2 $behind 10.9.0.2/24 fd00:9::2/64 10.9.0.1/24 fd00:9::1/64
inside $service ip route add default via 169.254.169.1; inside $service ip -6 route add default via fd00:ec2::1
inside $behind ip route add default via 10.9.0.1; inside $behind ip -6 route add default via fd00:9::1
echo 1 > /proc/sys/net/ipv4/ip_forward; echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
inside $service "$PYTHON" -c "$SERVES" &
until [ "$("$PYTHON" -c "$ASKS")" = '["reached", "reached"]' ]; do sleep 0.05; done
inside $behind "$PYTHON" -c "$ASKS"
nft -f - <<< "$RULES"
"$PYTHON" -c "$ASKS"
"$PYTHON" -c "$ASKS" $ACCOUNT
inside $behind "$PYTHON" -c "$ASKS"
"""


def asked_under(rules: str) -> tuple[list[str], list[str], list[str], list[str]]:
    """What a network behind the machine finds without rules; and with them root, an account of jobs, and the network behind it."""
    python = shutil.which("python3", path=os.defpath) or sys.executable
    given = {"PYTHON": python, "SERVES": SERVES, "ASKS": ASKS, "RULES": rules, "ACCOUNT": str(FIRST)}
    command = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", NETWORKS]
    done = subprocess.run(command, env=os.environ | given, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode and not done.stdout:
        pytest.skip(f"network namespaces cannot be made here: {done.stderr.strip()[-300:]}")
    before, root, job, behind = map(json.loads, done.stdout.splitlines())
    return before, root, job, behind


def test_neither_an_account_of_jobs_nor_a_network_behind_the_instance_reaches_the_metadata_service() -> None:
    rules = re.search(r"<<'RULES'\n(.*?)\nRULES\n", first_boot(order_of()), re.DOTALL)
    assert rules is not None
    assert asked_under(rules[1]) == (REACHED, REACHED, REFUSED, REFUSED)


def test_a_container_behind_the_bridge_of_a_node_does_not_reach_it_and_what_is_behind_another_interface_does() -> None:
    """The executor's rules for containers that have a network of their own."""
    assert asked_under(rules_behind("out2")) == (REACHED, REACHED, REACHED, REFUSED)
    assert asked_under(rules_behind("out3")) == (REACHED, REACHED, REACHED, REACHED)
