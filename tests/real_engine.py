"""A real container engine for tests: Podman with a storage of its own and an image made of this machine's programs, if that works here."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

from headrace.node_executor.runtimes.container_engine import Engine, EngineError
from tests.patience import PATIENCE
from tests.private_network import place_of_engine

IMAGE = "localhost/headrace-test:1"
PROGRAMS = ("sh", "bash", "sleep", "touch", "seq", "cat", "true", "id", "kill", "readlink")
TRIES = tuple(product(("overlay", "vfs"), ("runc", "crun")))
"""Storage drivers and runtimes, tried in this order: which of them work depends on the machine's cgroups and file systems."""


class NotHere(Exception):
    """No engine works on this machine; the message says what was tried."""


class Podman:
    """Podman's service at `socket`, with everything of it in `directory`. `stop` and `start` are what an upgrade of it does.

    `within`: the words before each command of it, for the network that is its host's. `no_bridge`: why it can make no network of
    containers; empty if it can.
    """

    image = IMAGE
    interfaces = ("lo", "eth0")
    """What a container with a network of its own has."""

    def __init__(self, directory: Path, driver: str, runtime: str, within: tuple[str, ...] = ()) -> None:
        self.socket = str(directory / "podman.sock")
        self.no_bridge = ""
        self._within = within
        self._service: subprocess.Popen[bytes] | None = None
        engine, storage = directory / "containers.conf", directory / "storage.conf"
        limits = '[containers]\ndefault_ulimits=["nofile=1024:1024","nproc=10000:10000"]\n'
        engine.write_text(f'{limits}[engine]\nruntime="{runtime}"\ncgroup_manager="cgroupfs"\nevents_logger="file"\n')
        with engine.open("a") as file:
            file.write(f'[network]\nnetwork_config_dir="{directory}/networks"\n')
        storage.write_text(f'[storage]\ndriver="{driver}"\nrunroot="{directory}/run"\ngraphroot="{directory}/root"\n')
        self._env = {**os.environ, "CONTAINERS_CONF": str(engine), "CONTAINERS_STORAGE_CONF": str(storage)}

    def call(self, *words: str) -> str:
        """Podman itself, as a command. Raises `NotHere`."""
        try:
            done = subprocess.run(
                [*self._within, "podman", *words], env=self._env, capture_output=True, text=True, timeout=60, check=False
            )
        except subprocess.TimeoutExpired:
            raise NotHere(f"podman {words[0]} takes longer than a minute") from None
        if done.returncode:
            raise NotHere(f"podman {words[0]}: {(done.stderr.strip().splitlines() or ['no reason'])[-1]}")
        return done.stdout

    @property
    def namespace(self) -> str:
        """The network namespace of its host."""
        return subprocess.run(
            [*self._within, "readlink", "/proc/self/ns/net"], capture_output=True, text=True, check=True
        ).stdout.strip()

    def why_no_bridge(self) -> str:
        """Why it can give containers no network of their own; empty if it can."""
        try:
            self.call("run", "--rm", "--network=bridge", IMAGE, "true")
        except NotHere as reason:
            return str(reason)
        return ""

    def start(self, **variables: str) -> None:
        """The service answers; `variables` of its environment are others than usual. Raises `NotHere`."""
        env = {**self._env, **variables}
        # in that directory, because monitors of containers write a file `oom` into the working directory
        there = ("/usr/bin/env", f"--chdir={Path(self.socket).parent}")
        command = [*self._within, *there, "podman", "system", "service", "--time=0", f"unix://{self.socket}"]
        quiet = subprocess.DEVNULL
        self._service = subprocess.Popen(command, env=env, stdout=quiet, stderr=quiet)
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                Engine(self.socket).call("GET", "/containers/json", timeout=5)
            except EngineError as error:
                if time.monotonic() > deadline or self._service.poll() is not None:
                    raise NotHere(str(error)) from None
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """The service is killed; containers run on."""
        if self._service is not None:
            self._service.send_signal(signal.SIGKILL)
            self._service.wait()
            self._service = None
            Path(self.socket).unlink(missing_ok=True)

    def end(self) -> None:
        """Nothing is left of it."""
        self.stop()
        try:
            self.call("rm", "--all", "--force", "--time=0")
            self.call("system", "reset", "--force")
        except NotHere:
            return


def make_image(path: Path) -> None:
    """An archive with a few of this machine's programs and the libraries that they need."""
    with tarfile.open(path, "w") as archive:
        wanted: dict[str, str] = {}
        for program in PROGRAMS:
            found = os.path.realpath(shutil.which(program) or "")
            wanted[f"bin/{program}"] = found
            output = subprocess.run(["ldd", found], capture_output=True, text=True, check=False).stdout
            wanted |= {word[1:]: os.path.realpath(word) for word in output.split() if word.startswith("/")}
        for name, source in wanted.items():
            archive.add(source, name)
        for folder in ("tmp", "proc", "dev", "sys", "etc"):
            made = tarfile.TarInfo(folder)
            made.type, made.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            archive.addfile(made)


def podman(directory: Path, *, own_network: bool = True) -> Iterator[Podman]:
    """One that has run a container, to be ended by going on. Raises `NotHere`.

    `own_network`: in a network namespace of its own, so that no bridge of it is left on this machine.
    """
    with place_of_engine(own_network=own_network) as within:
        yield from _podman(directory, within)


def _podman(directory: Path, within: tuple[str, ...]) -> Iterator[Podman]:
    if shutil.which("podman") is None:
        raise NotHere("podman is not installed")
    if os.geteuid() != 0:
        raise NotHere("tests use podman as root only")
    make_image(directory / "image.tar")
    reasons = []
    for driver, runtime in TRIES:
        if shutil.which(runtime) is None:
            continue
        place = directory / f"{driver}-{runtime}"
        place.mkdir()
        one = Podman(place, driver, runtime, within)
        try:
            one.call("import", str(directory / "image.tar"), IMAGE)
            one.call("run", "--rm", "--network=host", "--memory=64m", "--pids-limit=100", IMAGE, "true")
            one.no_bridge = one.why_no_bridge()
            one.start()
        except NotHere as reason:
            reasons.append(f"{driver} and {runtime}: {reason}")
            one.end()
            continue
        yield one
        one.end()
        return
    raise NotHere("; ".join(reasons) or "neither runc nor crun is installed")
