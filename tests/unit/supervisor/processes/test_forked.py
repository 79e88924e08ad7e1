"""Processes that are forked from one that has imported what they run are as those that are executed, and end with it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys

import psutil
import pytest

from headrace.supervisor.processes import child_processes as children_module
from headrace.supervisor.processes.child_processes import Children, Program
from headrace.supervisor.processes.fork_server import Start
from headrace.supervisor.processes.forked import ForkServer
from headrace.supervisor.processes.process_specs import IMPORTED_ONCE
from tests.commands import SERVER
from tests.patience import PATIENCE

REPORT = r"""
import json, os, signal, sys
if __name__ == "__main__":
    mask = os.umask(0)
    report = json.dumps({
        "arguments": sys.argv[1:], "variables": dict(os.environ), "umask": mask, "directory": os.getcwd(), "module": __spec__.name,
        "leads_session": os.getsid(0) == os.getpid(), "nice": os.getpriority(os.PRIO_PROCESS, 0), "parent": os.getppid(),
        "child_ended": signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL, "open": len(os.listdir("/proc/self/fd")) - 1,
        "path": "" in sys.path, "command": open("/proc/self/cmdline").read().replace("\0", " "),
    })
    os.write(1, f"{report}\n".encode())
    os.write(2, b"error\n")
    if sys.argv[1] == "stay":
        signal.pause()
    raise SystemExit(int(sys.argv[1]))
"""
ENDING = r"""
import atexit, sys, threading, time
def later():
    time.sleep(0.1)
    print("by a thread")
if __name__ == "__main__":
    atexit.register(print, "at the end")
    threading.Thread(target=later).start()
    print("not written yet")
    if sys.argv[1] == "raise":
        raise OSError("a full disk")
    if sys.argv[1] != "return":
        sys.exit(int(sys.argv[1]) if sys.argv[1].isdigit() else sys.argv[1] or None)
"""
FORKING = r"""
import asyncio, os, psutil, signal, sys
from headrace.supervisor.processes.fork_server import Start
from headrace.supervisor.processes.forked import forking
async def report(server):
    server.connect()
    argv = (sys.executable, "-P", "-m", "reporting", "0", "x" * 300)
    process = await server.start(Start(argv, {"PYTHONPATH": sys.argv[1]}, "/", 0o77, 0, signal.SIGKILL), 1)
    code = await process.wait()
    if sys.argv[2] == "kill":
        (child,) = psutil.Process().children()
        child.kill()
        while psutil.pid_exists(child.pid):
            await asyncio.sleep(0.001)
    return code
kept = os.open("/", os.O_RDONLY)
print("not written yet", end="")
with forking(["reporting"]) as server:
    code = asyncio.run(report(server))
try:
    os.wait()
except ChildProcessError:
    print(f" {code}")
"""
AS_EXECUTED = ("arguments", "variables", "umask", "directory", "module", "leads_session", "nice", "child_ended", "open")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has process descriptors")


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(children_module, "WAIT_FIRST", 0.01)
    monkeypatch.setattr(children_module, "WAIT_MOST", 0.02)


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A folder of modules that every Python finds from now on, with the one that reports on its process."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "reporting.py").write_text(REPORT)
    (folder / "ending.py").write_text(ENDING)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.fixture
def fork_server(modules):
    """A server that imports the module."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, "-P", "-c", SERVER, str(theirs.fileno()), "reporting"]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
        )
    with ours, process:
        yield ForkServer(ours)


@pytest.fixture
async def forking(tmp_path, fork_server):
    """Children that are forked from a server that has imported the module."""
    children = Children(tmp_path / "logs", lambda: None)
    children.fork_from(fork_server)
    yield children
    await children.stop(at_once=True)


def reporting(tmp_path, modules, *arguments, name="part", **settings):
    variables = {"PYTHONPATH": str(modules), "LC_ALL": "C.UTF-8"}
    argv = (sys.executable, "-P", "-m", "reporting", *arguments)
    return Program(name, argv, variables, directory=tmp_path, umask=0o027, nice=3, is_forked=True, **settings)


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


def reports(child):
    """All that its lives have reported."""
    lines = child.log.path.read_text().splitlines() if child.log.path.exists() else []
    return [json.loads(line) for line in lines if line.startswith("{")]


def is_gone(pid):
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_a_forked_program_is_as_one_that_is_executed(tmp_path, modules, forking):
    executing = Children(tmp_path / "others", lambda: None)
    (forked,) = forking.start(reporting(tmp_path, modules, "stay", "--name", "a b"))
    (executed,) = executing.start(reporting(tmp_path, modules, "stay", "--name", "a b"))
    try:
        await until(lambda: [child.log.last_line() for child in (forked, executed)] == ["error", "error"])
        (one,), (other,) = reports(forked), reports(executed)
        assert {key: one[key] for key in AS_EXECUTED} == {key: other[key] for key in AS_EXECUTED}
        assert (one["arguments"], one["umask"], one["module"]) == (["stay", "--name", "a b"], 0o027, "reporting")
        assert (one["parent"] == os.getpid(), other["parent"]) == (False, os.getpid())
        shown = [word for word in psutil.Process(forked.pid).cmdline() if word]
        assert shown == psutil.Process(executed.pid).cmdline() == list(forked.program.argv)
    finally:
        await executing.stop(at_once=True)


@pytest.mark.parametrize("code", [0, 3])
async def test_its_exit_code_is_known_and_it_is_started_again(tmp_path, modules, forking, code):
    (one,) = forking.start(reporting(tmp_path, modules, str(code)))
    await until(lambda: one.restarts >= 2)
    assert (one.exit_code, len({report["parent"] for report in reports(one)})) == (code, 1)


@pytest.mark.parametrize(
    ("how", "code", "errors"),
    [("return", 0, []), ("", 0, []), ("3", 3, []), ("it failed", 1, ["it failed"]), ("raise", 1, ["OSError: a full disk"])],
)
async def test_what_it_has_printed_is_written_and_what_is_registered_for_its_end_runs(
    tmp_path, modules, forking, how, code, errors
):
    argv = (sys.executable, "-P", "-m", "ending", how)
    final = frozenset({0, 1, 3})
    (one,) = forking.start(Program("part", argv, {"PYTHONPATH": str(modules)}, is_forked=True, final=final))
    await until(lambda: one.state == "given-up")
    traceback = ("Traceback", "  ")
    printed = [line for line in one.log.path.read_text().splitlines() if not line.startswith(traceback)]
    assert (one.exit_code, sorted(printed)) == (code, sorted(["at the end", "by a thread", *errors, "not written yet"]))


async def test_one_that_is_killed_is_started_again_and_one_that_is_final_is_not(tmp_path, modules, forking):
    killed, final = forking.start(
        reporting(tmp_path, modules, "stay"), reporting(tmp_path, modules, "4", name="other", final=frozenset({4}))
    )
    await until(lambda: reports(killed))
    first = killed.pid
    os.kill(first, signal.SIGKILL)
    await until(lambda: len(reports(killed)) == 2)
    await until(lambda: final.state == "given-up")
    assert (killed.view().restarts, killed.view().exit_code, killed.pid != first) == (1, -signal.SIGKILL, True)
    assert (final.exit_code, final.restarts, final.pid) == (4, 0, 0)


async def test_one_that_is_stopped_ends_as_asked(tmp_path, modules, forking):
    (one,) = forking.start(reporting(tmp_path, modules, "stay"))
    await until(lambda: reports(one))
    pid = one.pid
    await one.stop()
    assert (one.exit_code, one.state, is_gone(pid)) == (-signal.SIGTERM, "stopped", True)


async def test_without_the_server_programs_are_executed_once_those_that_it_forked_have_ended(tmp_path, modules, forking):
    (one,) = forking.start(reporting(tmp_path, modules, "stay", dies_with=signal.SIGTERM))
    await until(lambda: reports(one))
    (forked,), pid = reports(one), one.pid
    os.kill(forked["parent"], signal.SIGKILL)
    await until(lambda: len(reports(one)) == 2)
    assert (is_gone(pid), one.restarts, reports(one)[1]["parent"]) == (True, 1, os.getpid())


@pytest.fixture
def broken(modules):
    """The module can no longer be imported."""
    (modules / "reporting.py").write_text("raise RuntimeError('not today')")


@pytest.mark.usefixtures("broken")
async def test_a_module_that_cannot_be_imported_is_reported_by_the_program(tmp_path, modules, forking):
    (one,) = forking.start(reporting(tmp_path, modules, "0"))
    await until(lambda: one.restarts >= 1)
    await one.stop(at_once=True)
    assert (one.exit_code, one.log.last_line()) == (1, "RuntimeError: not today")


async def test_what_still_runs_ends_with_the_server(tmp_path, fork_server):
    fork_server.connect()
    command = (sys.executable, "-P", "-m", "reporting", "stay")
    with (tmp_path / "output").open("wb") as output:
        process = await fork_server.start(Start(command, {}, None, -1, 0, signal.SIGKILL), output.fileno())
    fork_server.close()
    fork_server.close()
    async with asyncio.timeout(PATIENCE):
        assert await process.wait() == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    with pytest.raises(OSError, match="Bad file descriptor"):
        await fork_server.start(Start(command, {}, None, -1, 0, signal.SIGKILL), sys.__stdout__.fileno())
    assert is_gone(process.pid)


async def test_a_process_that_is_no_longer_asked_for_is_killed(tmp_path, fork_server):
    fork_server.connect()
    command, output = (sys.executable, "-P", "-m", "reporting", "stay"), tmp_path / "output"
    with output.open("wb") as file:
        asking = asyncio.create_task(fork_server.start(Start(command, {}, None, -1, 0, signal.SIGKILL), file.fileno()))
        await asyncio.sleep(0)
        asking.cancel()
        other = await fork_server.start(Start(command, {}, None, -1, 0, signal.SIGKILL), file.fileno())
    parent = psutil.Process(other.pid).parent()
    await until(lambda: parent.children() == [psutil.Process(other.pid)])
    fork_server.close()
    assert asking.cancelled()


def test_what_is_imported_before_a_fork_starts_no_thread_and_opens_no_file():
    """A fork copies the thread that forks, and none beside it."""
    code = (
        "import os, sys, importlib; before = set(os.listdir('/proc/self/fd'))\n"
        "for module in sys.argv[1:]: importlib.import_module(module)\n"
        "print(len(os.listdir('/proc/self/task')), set(os.listdir('/proc/self/fd')) == before)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, "headrace.cli.operations.keep_up", *IMPORTED_ONCE],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "1 True\n"


@pytest.mark.parametrize("ending", ["end", "kill"])
def test_a_process_forks_the_server_from_itself_and_leaves_nothing_of_it(modules, ending):
    """Nothing of the process gets into those that the server forks: not its files, its directory of modules or what it has not written."""
    command = [sys.executable, "-c", FORKING, str(modules), ending]
    variables = {"PYTHONPATH": str(modules)}
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=modules, env=variables)
    report, *others = ran.stdout.splitlines()
    shown = json.loads(report)
    assert (shown["open"], shown["directory"], shown["variables"]) == (3, "/", variables)
    assert (shown["path"], shown["command"].split()) == (False, [sys.executable, "-P", "-m", "reporting", "0", "x" * 300])
    assert (others, ran.stderr) == (["error", "not written yet 0"], "")
