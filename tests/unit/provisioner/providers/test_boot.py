"""The script of an instance's user data: its shell, its firewall and its unit are checked by the programs that read them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from headrace.provisioner.providers.boot import first_boot
from tests.unit.provisioner.providers.clouds import order_of

ARGUMENTS = (
    "run",
    "--name",
    "cloud-1",
    "--labels",
    "site=cloud,note=50%",
    "--power-off",
    "systemctl poweroff",
    "--devices",
    "",
)
SCRIPT = first_boot(
    order_of(arguments=ARGUMENTS, environment={"HEADRACE_NATS_PASSWORD": "it's $x", "HEADRACE_NATS_URL": "tls://h"})
)


def part(end: str) -> str:
    """A part that the script writes into a file or hands to a program."""
    found = re.search(rf"<<'{end}'\n(.*?)\n{end}\n", SCRIPT, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_script_is_one_that_the_shell_reads() -> None:
    subprocess.run(["/bin/sh", "-n"], input=SCRIPT.encode(), check=True)
    assert SCRIPT.startswith("#!/bin/sh\n")


def test_whatever_fails_ends_the_instance(tmp_path: Path) -> None:
    for name in ("systemd-run", "systemctl", "nft"):
        program = tmp_path / name
        program.write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/calls\n[ {name} != nft ]\n')
        program.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(["/bin/sh"], input=SCRIPT.encode(), env={"PATH": path}, check=False)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert (done.returncode, calls[0].split()[:2], calls[-1]) == (1, ["systemd-run", "--quiet"], "systemctl poweroff")
    assert "--on-active=480s" in calls[0]


def test_the_command_and_the_variables_are_those_of_the_order() -> None:
    unit = part("UNIT")
    assert "ExecStart=/opt/headrace/bin/headrace node run --name cloud-1 --labels site=cloud,note=50%%" in unit
    assert unit.split("ExecStart=")[1].splitlines()[0].endswith('--power-off "systemctl poweroff" --devices ""')
    assert part("VARIABLES").splitlines() == ["HEADRACE_NATS_PASSWORD='it'\"'\"'s $x'", "HEADRACE_NATS_URL=tls://h"]


def test_the_same_order_gives_the_same_script() -> None:
    assert first_boot(order_of()) == first_boot(order_of())


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_the_unit_is_one_that_systemd_reads(tmp_path: Path) -> None:
    unit = tmp_path / "headrace-instance.service"
    unit.write_text(part("UNIT").replace("/opt/headrace/bin/headrace", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "headrace-instance" in line] == []


@pytest.mark.skipif(shutil.which("nft") is None or os.getuid() != 0, reason="needs nftables and root")
def test_the_firewall_is_one_that_nftables_reads() -> None:
    done = subprocess.run(["nft", "-c", "-f", "-"], input=part("RULES"), capture_output=True, text=True, check=False)
    assert "syntax error" not in done.stderr
