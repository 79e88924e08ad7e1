"""A virtual machine with a kernel of its own: control groups of version 2 alone, a clock that can be set, and a restart.

QEMU computes every instruction (no KVM is needed), so a program takes ten to thirty times as long. The root file system is an image that
Podman builds: Debian with its kernel for clouds, systemd, the executor's unit, and QEMU's guest agent, over which commands are run.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.deploy.images import BASE, HEADRACE, ROOT, STORE, Engine, missing

IMAGE = "localhost/headrace-machine"
CONTAINERFILE = f"""\
FROM {BASE}
RUN apt-get update && apt-get install --no-install-recommends --yes systemd systemd-sysv udev dbus linux-image-cloud-amd64 qemu-guest-agent
COPY --from={HEADRACE} /opt/headrace /opt/headrace
COPY headrace-node.service /etc/systemd/system/headrace-node.service
COPY network /etc/systemd/network/net.network
RUN systemctl enable systemd-networkd && mkdir /etc/headrace
"""
NETWORK = "[Match]\nName=e*\n[Network]\nDHCP=yes\n"
HOST = "10.0.2.2"
"""This machine's loopback interface, as QEMU's user network shows it inside."""
NEEDED = ("qemu-system-x86_64", "mkfs.ext4")
INSTALL = "apt install qemu-system-x86 e2fsprogs"
DISK = "6G"
WITHIN = 600.0
"""Seconds that a start, or a command inside, may take."""


def missing_here() -> str:
    """What has to be installed before, or "" if nothing is missing."""
    absent = [program for program in NEEDED if shutil.which(program) is None]
    return f"{', '.join(absent)}: not installed; {INSTALL}" if absent else missing()


def made_disk(engine: Engine) -> Path:
    """The folder with kernel, initial file system and disk of the machine; made again where the image has changed."""
    engine.headrace()
    unit = (ROOT / "deploy/systemd/headrace-node.service").read_text("utf-8")
    engine.built(IMAGE, CONTAINERFILE, **{"headrace-node.service": unit, "network": NETWORK})
    identity = engine.call("image", "inspect", "--format", "{{.Id}}", IMAGE).strip()
    folder = STORE / "machine"
    with contextlib.suppress(OSError):
        if (folder / "made-from").read_text() == identity:
            return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    root = Path(engine.call("image", "mount", IMAGE).strip())
    try:
        for name in ("vmlinuz", "initrd.img"):
            shutil.copy(next((root / "boot").glob(f"{name}-*")), folder / name)
        disk = ["mkfs.ext4", "-q", "-d", str(root), str(folder / "disk"), DISK]
        subprocess.run(disk, check=True, capture_output=True, timeout=WITHIN)
    finally:
        engine.call("image", "unmount", IMAGE)
    (folder / "made-from").write_text(identity)
    return folder


class Lines:
    """JSON lines over a socket of QEMU."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self._left = b""

    def send(self, message: dict[str, Any]) -> None:
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, within: float) -> dict[str, Any]:
        """The next message. Raises TimeoutError, or ValueError for a line that a restart has cut."""
        self._socket.settimeout(within)
        while b"\n" not in self._left:
            self._left += self._socket.recv(65_536)
        line, _, self._left = self._left.partition(b"\n")
        message: dict[str, Any] = json.loads(line.lstrip(b"\xff"))
        return message

    def close(self) -> None:
        self._socket.close()


class VirtualMachine:
    """The running machine. `folder`: for its sockets and the output of its console. What is written to the disk goes with it."""

    def __init__(self, made: Path, folder: Path, memory: int = 2_048) -> None:
        self.console = folder / "console"
        agent, monitor = folder / "agent", folder / "monitor"
        words = (
            *("qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", str(memory), "-nodefaults"),
            *("-no-user-config", "-display", "none", "-kernel", str(made / "vmlinuz"), "-initrd", str(made / "initrd.img")),
            *("-append", "root=/dev/vda rw console=ttyS0 systemd.hostname=gpu01 panic=-1 mitigations=off quiet"),
            *("-drive", f"file={made}/disk,format=raw,if=none,id=disk,snapshot=on", "-device", "virtio-blk-pci,drive=disk"),
            *("-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net", "-device", "virtio-rng-pci"),
            *("-device", "virtio-serial-pci", "-chardev", f"socket,path={agent},server=on,wait=off,id=agent"),
            *("-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0"),
            *("-serial", f"file:{self.console}", "-qmp", f"unix:{monitor},server=on,wait=off"),
        )
        self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        self._numbers = itertools.count(1)
        try:
            self._monitor = self._connected(monitor)
            self._monitor.receive(WITHIN)
            self._command("qmp_capabilities")
            self._agent = self._connected(agent)
            self.wait_until_up()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise

    def wait_until_up(self) -> None:
        """Wait until commands are answered inside."""
        deadline = time.monotonic() + WITHIN
        while True:
            number = next(self._numbers)
            self._agent.send({"execute": "guest-sync", "arguments": {"id": number}})
            with contextlib.suppress(TimeoutError, ValueError):
                while self._agent.receive(2.0).get("return") != number:
                    pass
                return
            self._check_running(deadline)

    def type(self, text: str, *, check: bool = True, within: float = WITHIN) -> str:
        """Run commands as root inside; returns what they printed."""
        arguments = {"path": "/bin/bash", "arg": ["-ec", text], "capture-output": True}
        pid = self._ask("guest-exec", **arguments)["pid"]
        deadline = time.monotonic() + within
        while not (done := self._ask("guest-exec-status", pid=pid))["exited"]:
            assert time.monotonic() < deadline, f"not within {within:g} s: {text}"
            time.sleep(0.2)
        output, errors = (base64.b64decode(done.get(name, "")).decode(errors="replace") for name in ("out-data", "err-data"))
        assert done.get("exitcode") == 0 or not check, f"{text}: {done.get('exitcode')}\n{output[-3_000:]}{errors[-3_000:]}"
        return output if check else output + errors

    def put(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file inside."""
        handle = self._ask("guest-file-open", path=path, mode="w")
        for start in range(0, len(data), 32_768):
            piece = base64.b64encode(data[start : start + 32_768]).decode()
            self._ask("guest-file-write", handle=handle, **{"buf-b64": piece})
        self._ask("guest-file-close", handle=handle)
        self.type(f"chmod {mode:o} {path}")

    def boot_id(self) -> str:
        return self.type("cat /proc/sys/kernel/random/boot_id").strip()

    def reboot(self) -> None:
        """Restart in order, as an administrator does."""
        before = self.boot_id()
        self._agent.send({"execute": "guest-shutdown", "arguments": {"mode": "reboot"}})
        while self._monitor.receive(WITHIN).get("event") != "RESET":  # what is asked before is answered by no agent
            pass
        self._wait_for_another(before)

    def cut_power(self) -> None:
        """Restart at once: what is not on the disk is lost."""
        before = self.boot_id()
        self._command("system_reset")
        self._wait_for_another(before)

    def end(self) -> None:
        self._agent.close()
        self._monitor.close()
        self._process.kill()
        self._process.wait()

    def _connected(self, path: Path) -> Lines:
        """A connection to a socket that QEMU makes; it is there a moment before it takes connections."""
        deadline = time.monotonic() + WITHIN
        while True:
            with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
                return Lines(path)
            self._check_running(deadline)
            time.sleep(0.05)

    def _wait_for_another(self, before: str) -> None:
        deadline = time.monotonic() + WITHIN
        while True:
            self.wait_until_up()
            with contextlib.suppress(TimeoutError, ValueError, KeyError, AssertionError):
                if self.boot_id() != before:
                    return
            self._check_running(deadline)

    def _check_running(self, deadline: float) -> None:
        output = self.console.read_text(errors="replace")[-4_000:] if self.console.exists() else ""
        assert self._process.poll() is None, f"QEMU has ended\n{output}"
        assert time.monotonic() < deadline, f"not within {WITHIN:g} s\n{output}"

    def _command(self, name: str) -> None:
        self._monitor.send({"execute": name})
        while "return" not in (message := self._monitor.receive(WITHIN)):
            assert "error" not in message, message

    def _ask(self, name: str, **arguments: Any) -> Any:
        self._agent.send({"execute": name, "arguments": arguments})
        answer = self._agent.receive(60.0)
        assert "return" in answer, f"{name}: {answer}"
        return answer["return"]
