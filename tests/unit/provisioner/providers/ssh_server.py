"""OpenSSH's server on a free port of this machine, with keys and settings of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

SSHD = Path("/usr/sbin/sshd")

_COMMAND = """\
#!/bin/sh
# Runs what the client asks for; if `lose` names its last word, the connection dies before the answer is sent.
answer=$(/bin/sh -c "$SSH_ORIGINAL_COMMAND")
status=$?
lost=$(cat {place}/lose 2>/dev/null)
if [ -n "$lost" ] && [ "${{SSH_ORIGINAL_COMMAND##* }}" = "$lost" ]; then kill -9 "$PPID"; exit 1; fi
printf '%s\\n' "$answer"
exit $status
"""

_SETTINGS = """\
Port {port}
ListenAddress 127.0.0.1
HostKey {place}/host
PidFile {place}/pid
AuthorizedKeysFile {place}/authorized
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin yes
ForceCommand {place}/command
"""


class SshServer:
    """The server. `key`: the client's private key; `known_hosts`: the server's public one."""

    def __init__(self, place: Path) -> None:
        place.mkdir(mode=0o700)
        self.place = place
        self.key = place / "client"
        self.known_hosts = place / "known_hosts"
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        for name in ("client", "host"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(place / name)], check=True)
        (place / "command").write_text(_COMMAND.format(place=place))
        (place / "command").chmod(0o700)
        (place / "settings").write_text(_SETTINGS.format(place=place, port=self.port))
        self.be_known_by("host")
        self.accept_key()
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

    def be_known_by(self, key: str) -> None:
        """Clients expect the public key of this name."""
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {(self.place / key).with_suffix('.pub').read_text()}")

    def accept_key(self) -> None:
        (self.place / "authorized").write_text(self.key.with_suffix(".pub").read_text())

    def start(self) -> None:
        """Start it, unless it runs; returns once it accepts connections."""
        if self._process is not None:
            return
        command = [str(SSHD), "-D", "-e", "-f", str(self.place / "settings")]
        with (self.place / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + 10
        while not self._accepts() and time.monotonic() < deadline:
            time.sleep(0.02)

    def _accepts(self) -> bool:
        with socket.socket() as probe:
            return not probe.connect_ex(("127.0.0.1", self.port))

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None
