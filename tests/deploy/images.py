"""A container engine with a storage of its own, and images made on this machine: no registry of images is asked.

The base is Debian by mmdebstrap, under the name that `deploy/Dockerfile` asks for. All of it lies in `.images` and is made again where
its sources have changed; `python -m tests.deploy.images` removes it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
STORE = ROOT / ".images"
BASE, HEADRACE, POSTGRES = "docker.io/library/python:3.11-slim-bookworm", "localhost/headrace", "docker.io/library/postgres:18"
PACKAGES = "ca-certificates,python-is-python3,python3-dev,python3-venv"
NEEDED = ("podman", "runc", "mmdebstrap")
INSTALL = "apt install podman runc mmdebstrap netavark aardvark-dns catatonit iptables"
WITHIN = 2_400
"""Seconds that the longest step, building an image, may take."""
SHARED = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf")
"""Files of this machine, without which packages may not be found while an image is built."""
SOURCES = (
    *("pyproject.toml", "requirements.lock", "hatch_build.py", "docs/rules.md", "README.md", "LICENSE"),
    *("contracts", "services", "node-executor"),
)

_CONFIG = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=20000:20000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
tmp_dir = "{store}/tmp"
[network]
network_backend = "netavark"
network_config_dir = "{store}/net"
"""
_STORAGE = '[storage]\ndriver = "overlay"\nrunroot = "{store}/run"\ngraphroot = "{store}/root"\n'


class Engine:
    """Podman on `.images`; nothing of it is seen by, or sees, another Podman of this machine."""

    def __init__(self, store: Path = STORE) -> None:
        for part in ("tmp", "net"):
            (store / part).mkdir(parents=True, exist_ok=True)
        (store / "containers.conf").write_text(_CONFIG.format(store=store))
        (store / "storage.conf").write_text(_STORAGE.format(store=store))
        self.store = store
        self.environment = {
            **os.environ,
            "CONTAINERS_CONF": str(store / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(store / "storage.conf"),
        }

    def call(self, *words: str, stdin: str | None = None, within: float = WITHIN, check: bool = True) -> str:
        """What Podman prints; AssertionError with all that it said if it fails."""
        command = ["podman", *words]
        done = subprocess.run(
            command, env=self.environment, input=stdin or "", capture_output=True, text=True, timeout=within, check=False
        )
        assert done.returncode == 0 or not check, f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done.stdout if check else done.stdout + done.stderr

    def has(self, image: str, label: str = "") -> bool:
        """Whether the image is there, made from sources with this digest."""
        output = self.call("image", "inspect", "--format", '{{index .Labels "made-from"}}', image, check=False)
        return bool(label) and label in output

    def base(self) -> None:
        """Debian with Python, as the base of `deploy/Dockerfile`."""
        if self.has(BASE, PACKAGES):
            return
        archive = self.store / "base.tar"
        command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", "bookworm", str(archive)]
        subprocess.run(command, check=True, capture_output=True, timeout=WITHIN)
        self.call("import", "--change", 'CMD ["bash"]', "--change", f"LABEL made-from={PACKAGES}", str(archive), BASE)
        archive.unlink()

    def headrace(self) -> None:
        """The image of `deploy/Dockerfile`, as it is."""
        self.base()
        made_from = digest_of_sources()
        if self.has(HEADRACE, made_from):
            return
        shared = [f"--volume={path}:{path}:ro" for path in SHARED if os.path.exists(path)]
        where = ["--file", str(ROOT / "deploy/Dockerfile"), "--tag", HEADRACE, str(ROOT)]
        self.call("build", "--network=host", f"--label=made-from={made_from}", *shared, *where)
        self.call("image", "prune", "--force")

    def built(self, name: str, containerfile: str, **files: str) -> None:
        """An image of this Containerfile, which finds the given files beside it."""
        folder = self.store / "context"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for file, text in {"Containerfile": containerfile, **files}.items():
            (folder / file).write_text(text)
            (folder / file).chmod(0o755)
        shared = [f"--volume={path}:{path}:ro" for path in SHARED if os.path.exists(path)]
        self.call("build", "--network=host", *shared, "--file", str(folder / "Containerfile"), "--tag", name, str(folder))

    def postgres(self) -> None:
        """A PostgreSQL that takes the variables of the one of a registry, out of the wheel in our image."""
        files = {"start": (Path(__file__).parent / "postgres_start").read_text()}
        self.built(POSTGRES, _POSTGRES, **files)


_POSTGRES = f"""\
FROM {HEADRACE}
USER root
RUN install --directory --owner headrace --group headrace /var/lib/postgresql
COPY start /start
USER headrace
VOLUME /var/lib/postgresql
CMD ["/start"]
"""


def digest_of_sources() -> str:
    """Digest of everything that `deploy/Dockerfile` copies, and of itself."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "deploy/Dockerfile", *SOURCES]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    digest = hashlib.sha256()
    for name in sorted(filter(None, names)):
        path = ROOT / name
        digest.update(name.encode() + b"\0" + (path.read_bytes() if path.is_file() else b"") + b"\0")
    return digest.hexdigest()[:32]


def missing() -> str:
    """What has to be installed before, or "" if nothing is missing."""
    absent = [program for program in NEEDED if shutil.which(program) is None]
    if absent:
        return f"{', '.join(absent)}: not installed; {INSTALL}"
    return "" if os.geteuid() == 0 else "images are made and run by root here"


if __name__ == "__main__":
    engine = Engine()
    engine.call("rm", "--all", "--force", "--time=0", check=False)
    subprocess.run(["umount", str(STORE / "root/overlay")], check=False, capture_output=True)  # Podman mounts it on itself
    shutil.rmtree(STORE)
