"""Runs one container, or a command in one, as a process: as a script under a keeper, so all that holds for jobs holds for it.

    container_run SPEC      (a file of JSON that is read and removed: it contains the job's environment)

It asks an engine that speaks Docker's API, Docker or Podman, over its socket; writes into the file `told` whether the container was
started or why not, and whose fault that was; prints the output of the container; passes SIGTERM on; and ends with the exit code of what
it ran.

Output comes over a connection that is made before the container starts, so nothing is missed. When the engine goes away the container may
run on: then, and when a container is taken over (a spec without `create`), it is looked at every second, and what it printed meanwhile is
read from the engine's own log, from where printing had stopped. That position is kept in a file.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

if not __package__:  # a script does not find its package: the module is loaded from beside it
    name = "headrace.node_executor.runtimes.container_engine"
    found = importlib.util.spec_from_file_location(name, os.path.join(os.path.dirname(__file__), "container_engine.py"))
    if found is None or found.loader is None:
        raise ImportError(name)
    sys.modules[name] = importlib.util.module_from_spec(found)
    found.loader.exec_module(sys.modules[name])
from headrace.node_executor.runtimes.container_engine import (
    UNREADABLE,
    Engine,
    EngineError,
    NoImage,
    Unreadable,
    frames,
)

COULD_NOT, LOOK_EVERY = 125, 1.0
ANSWERS_WITHIN = 30.0
"""Seconds for calls that the engine answers at once."""
PRINTS_WITHIN = 60.0
"""Seconds after a container's end in which the rest of its output has to come."""
KILLED = (137, 143, 255)
"""Exit codes of containers that an engine ends with itself."""
MARK = "[headrace] "
"""Beginning of a line of `container_init`."""
BEGINNING = 1_000
"""Bytes of the output, at both ends, that are looked at for a reason."""
OUT_OF_MEMORY = "out-of-memory"
"""Last word of `told` if the kernel killed processes of the container for want of memory."""

NETWORK_FAILED = (
    "; the container engine could not make the job's private network: see that netavark or the plugins of CNI, and iptables or nftables, "
    "are installed for it, or write network: host in the profile"
)
_NETWORKING = re.compile(r"netavark|\bcni\b|plugin type|iptables|nftables|slirp4netns|network namespace|\bbridge\b|\bveth")

_NOT_FOUND, _UNUSABLE = ("executable file not found", "no such file or directory"), ("permission denied", "exec format error")


class Lost(Exception):
    """It is unknown how the container ended or would have ended; the message says why."""


class Output:
    """Prints the output of a container, each byte once; `path`: a file that keeps how much of each stream has been printed."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        out, _, err = os.pread(self._file, 64, 0).decode().partition(" ")
        self.printed = {1: int(out or 0), 2: int(err or 0)}
        self.attached = True
        self.beginning, self.ending = b"", b""
        self.refused: EngineError | None = None
        """Why the engine does not give it. Podman makes the container ready to start first, so this may be why it cannot."""

    def take(self, stream: int, data: bytes) -> None:
        """Print the next bytes of a stream."""
        self.beginning = (self.beginning + data[:BEGINNING])[:BEGINNING]
        self.ending = (self.ending + data[-BEGINNING:])[-BEGINNING:]
        left = memoryview(data)
        while left:
            left = left[os.write(1, left) :]
        self.printed[stream] += len(data)
        os.pwrite(self._file, f"{self.printed[1]:020} {self.printed[2]:020}".encode(), 0)

    def attach(self, engine: Engine, name: str, ready: threading.Event) -> None:
        """Print new output until the container ends or the engine goes away; `ready` is set once nothing can be missed, or if refused."""
        where = f"/containers/{name}/attach?stream=1&stdout=1&stderr=1"
        try:
            with engine.open("POST", where) as stream:
                ready.set()
                for number, data in frames(stream):
                    if not self.attached:
                        return
                    self.take(number, data)
        except EngineError as error:
            if not ready.is_set():
                self.refused = error
                ready.set()


class EnginesLog:
    """The engine's own log of a container, with the part that `output` has not printed yet."""

    def __init__(self, engine: Engine, name: str, output: Output) -> None:
        self._engine = engine
        self._where = f"/containers/{name}/logs?stdout=1&stderr=1&timestamps=1"
        self._output = output
        self._since = 0
        self._before = {1: 0, 2: 0}
        """Bytes of each stream that were printed before the second `_since`, from which on the log is requested."""

    def read(self) -> None:
        """Print what is new in the log."""
        seen = dict(self._before)
        since = f"&since={self._since}" if self._since else ""
        with self._engine.open("GET", self._where + since, timeout=PRINTS_WITHIN) as stream:
            for number, line in frames(stream):
                stamp, _, text = line.partition(b" ")
                second = int(datetime.fromisoformat(stamp.decode()).timestamp())
                if second > self._since:
                    self._since, self._before = second, dict(seen)
                seen[number] += len(text)
                if (fresh := seen[number] - self._output.printed[number]) > 0:
                    self._output.take(number, text[-fresh:])


def run_container(engine: Engine, spec: Mapping[str, Any]) -> int:
    """Run the container, from its image to its end. Raises `Lost`."""
    name, output = spec["name"], Output(spec["printed"])
    asked = threading.Event()
    printing: threading.Thread | None = None
    if "create" in spec:
        engine.pull(spec["image"], spec.get("login", ""))
        engine.remove(name)
        engine.call("POST", spec["where"], spec["create"])
        signal.signal(signal.SIGTERM, lambda *_: asked.set())
        ready = threading.Event()
        printing = threading.Thread(target=output.attach, args=(engine, name, ready), daemon=True)
        printing.start()
        if not ready.wait(ANSWERS_WITHIN):
            raise EngineError(0, f"the container engine at {engine.path} does not give the output of a container")
        if output.refused is not None:
            raise output.refused
        if not start(engine, name):
            printing = None
    else:
        signal.signal(signal.SIGTERM, lambda *_: asked.set())
    status = earlier_status(spec["told"]) or f"started {first_process(engine, name)}"
    write_status(spec["told"], status)
    threading.Thread(target=pass_on_sigterm, args=(engine, name, asked), daemon=True).start()
    code = None if printing is None else watch(engine, name, printing)
    if code is None:
        output.attached = False
        code = follow(engine, name, output)
    with contextlib.suppress(EngineError, *UNREADABLE):  # otherwise the executor removes it once the engine answers again
        state = engine.call("GET", f"/containers/{name}/json", timeout=ANSWERS_WITHIN)["State"] if code else {}
        if state.get("OOMKilled") or (code and output.ending.endswith(f"{MARK}out of memory\n".encode())):
            write_status(spec["told"], f"{status} {OUT_OF_MEMORY}")
        elif code in {126, 127} and (reason := not_run(output)):
            write_status(spec["told"], f"{status} {reason}")
        engine.remove(name, ANSWERS_WITHIN)
    return code


def not_run(output: Output) -> str:
    """Return why `container_init` could not run the command, if that is all that was printed; otherwise ""."""
    printed = output.beginning.decode(errors="replace")
    line = printed.removeprefix(MARK).removesuffix("\n")
    return line if printed == f"{MARK}{line}\n" and line.isprintable() else ""


def earlier_status(path: str) -> str:
    """Return what was told of a container that is taken over; the engine may be away."""
    with contextlib.suppress(OSError):
        if (status := read(path)).startswith("started "):
            return status
    return ""


def first_process(engine: Engine, name: str) -> str:
    """Return `PID ID`: the container's first process as it is seen from here, and the container's id; `0 -` if it is not seen."""
    with contextlib.suppress(EngineError, OSError, *UNREADABLE):
        found = engine.call("GET", f"/containers/{name}/json", timeout=ANSWERS_WITHIN)
        pid, number = int(found["State"]["Pid"]), str(found["Id"])
        if pid > 1 and number and number in read(f"/proc/{pid}/cgroup"):
            return f"{pid} {number}"
    return "0 -"


def start(engine: Engine, name: str) -> bool:
    """Start the container, once only; False if the engine went away meanwhile, so that the output is in its log only.

    Raises `Lost` if an engine that went away no longer knows whether the container was started: Podman then starts it a second time.
    """
    until, undisturbed = time.monotonic() + ANSWERS_WITHIN, True
    while True:
        try:
            if undisturbed or waits(engine, name):
                engine.call("POST", f"/containers/{name}/start")
        except EngineError as error:
            if error.status or time.monotonic() > until:
                raise
            undisturbed = False
            time.sleep(LOOK_EVERY)
        else:
            return undisturbed


def waits(engine: Engine, name: str) -> bool:
    """Return whether the container was surely not started yet; False if it was. Raises `Lost` if that is unknown, `EngineError`."""
    state = engine.call("GET", f"/containers/{name}/json", timeout=ANSWERS_WITHIN)["State"]
    if state["Status"] != "created":
        return False
    pid, comm = int(state.get("Pid") or 0), ""
    with contextlib.suppress(OSError):
        comm = read(f"/proc/{pid}/comm")
    if pid and not comm.startswith("runc:["):  # what runc leaves there until the start
        raise Lost("the container engine went away while it started the job's container")
    return True


def watch(engine: Engine, name: str, printing: threading.Thread) -> int | None:
    """Return its exit code once it has ended and its output is complete; None if the engine went away before.

    Podman's `wait` may answer 0 for a container that is just being killed, so its state is asked as well once its output has ended.
    """
    try:
        code = int(engine.call("POST", f"/containers/{name}/wait")["StatusCode"])
        printing.join(PRINTS_WITHIN)
        if not code:
            code = int(engine.call("GET", f"/containers/{name}/json", timeout=ANSWERS_WITHIN)["State"]["ExitCode"])
    except (EngineError, *UNREADABLE):
        return None
    return None if printing.is_alive() else code


def follow(engine: Engine, name: str, output: Output) -> int:
    """Look at it until it has ended, and print its output; returns its exit code. Raises `Lost`."""
    log, watched = EnginesLog(engine, name, output), False
    while True:
        try:
            if (code := poll(engine, name, log, watched=watched)) is not None:
                return code
            watched = True
        except UNREADABLE as error:
            raise Lost(f"what the container engine says of the job's container cannot be understood: {error!r}") from None
        except EngineError:
            pass
        time.sleep(LOOK_EVERY)


def poll(engine: Engine, name: str, log: EnginesLog, *, watched: bool) -> int | None:
    """Print its new output; returns its exit code, None while it runs. `watched`: it was seen running. Raises `Lost`, `EngineError`."""
    try:
        state = engine.call("GET", f"/containers/{name}/json", timeout=ANSWERS_WITHIN)["State"]
    except EngineError as error:
        if error.status == 404:
            raise Lost("the container engine no longer has the job's container") from None
        raise
    log.read()
    if state["Running"]:
        return None
    code = int(state["ExitCode"])
    if state.get("Status") == "created" or (code in KILLED and not watched and not state.get("OOMKilled")):
        raise Lost(f"the job's container ended while the container engine was away, with exit code {code}")
    return code


def pass_on_sigterm(engine: Engine, name: str, asked: threading.Event) -> None:
    """Once asked, send SIGTERM to the container's first process, as soon as the engine accepts it."""
    asked.wait()
    while True:
        try:
            engine.kill(name, "SIGTERM", ANSWERS_WITHIN)
        except EngineError:
            time.sleep(LOOK_EVERY)
        else:
            return


def run_inside(engine: Engine, spec: Mapping[str, Any]) -> int:
    """Run a command in a running container; SIGTERM kills it."""
    made = engine.call("POST", f"/containers/{spec['name']}/exec", spec["exec"])["Id"]
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=kill_inside, args=(engine, made), daemon=True).start())
    write_status(spec["told"], "started")
    with engine.open("POST", f"/exec/{made}/start", {"Detach": False, "Tty": False}) as stream:
        for _, data in frames(stream):
            os.write(1, data)
    while (code := engine.call("GET", f"/exec/{made}/json", timeout=ANSWERS_WITHIN).get("ExitCode")) is None:
        time.sleep(0.05)
    return int(code)


def kill_inside(engine: Engine, made: str) -> None:
    """Send SIGKILL to a command in a container and all below it, if its processes are visible from here."""
    with contextlib.suppress(EngineError, OSError, *UNREADABLE):
        found = engine.call("GET", f"/exec/{made}/json", timeout=ANSWERS_WITHIN)
        pid = int(found.get("Pid") or 0)
        if pid > 1 and found["ContainerID"] in read(f"/proc/{pid}/cgroup"):
            for one in (pid, *below(pid)):
                with contextlib.suppress(OSError):
                    os.kill(one, signal.SIGKILL)


def below(pid: int) -> list[int]:
    """Return the processes that descend from this one."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            children += map(int, read(f"/proc/{pid}/task/{thread}/children").split())
    return children + [one for child in children for one in below(child)]


def read(path: str) -> str:
    """Return the text of a file."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def write_status(path: str, what: str) -> None:
    """Write the file atomically."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(what)
    os.replace(f"{path}.new", path)


def blamed(error: EngineError, program: str, network: str = "") -> str:
    """Return `failed CODE MESSAGE`: with the code of a shell if the job is at fault, 0 if the node is (R36).

    The job is at fault if its image cannot be pulled, or if its own `program` cannot be executed: the engine's own programs, such as its
    init, may be missing as well. Programs by which it makes a private network often do not say what they lack.
    """
    text = str(error).lower()
    code = COULD_NOT if isinstance(error, NoImage) else 0
    if error.status in {400, 404, 500} and re.search(rf'exec: "{re.escape(program.lower())}"', text):
        code = 127 if any(part in text for part in _NOT_FOUND) else 126 if any(part in text for part in _UNUSABLE) else 0
    way_out = (
        NETWORK_FAILED
        if network == "private" and not code and not text.startswith("the image") and _NETWORKING.search(text)
        else ""
    )
    return f"failed {code} {' '.join(str(error).split())}{way_out}"


def main(path: str) -> int:
    """Run what the file specifies; returns the exit code."""
    with open(path, encoding="utf-8") as file:
        spec = json.load(file)
    os.unlink(path)
    engine = Engine(spec["socket"])
    try:
        return run_inside(engine, spec) if "exec" in spec else run_container(engine, spec)
    except Lost as lost:
        write_status(spec["told"], f"lost {lost}")
    except (EngineError, *UNREADABLE) as wrong:
        error = wrong if isinstance(wrong, EngineError) else Unreadable(0, f"its answer cannot be understood: {wrong!r}")
        write_status(spec["told"], blamed(error, spec.get("program", ""), spec.get("network", "")))
        if "create" in spec:
            with contextlib.suppress(EngineError):
                engine.remove(spec["name"], ANSWERS_WITHIN)
    return COULD_NOT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
