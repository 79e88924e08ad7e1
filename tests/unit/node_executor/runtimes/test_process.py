"""Real processes, short ones; every wait is for something that happens."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headrace.node_executor.runtimes import CannotStart, End, Launch, Running, Runtime, RuntimeListener
from headrace.node_executor.runtimes.job_log import Output, pieces
from headrace.node_executor.runtimes.keeper_client import Spawner
from headrace.node_executor.runtimes.process import KeeperRecord, Process, ProcessRuntime, read_state
from headrace.node_executor.system import native, orphans
from headrace.node_executor.system.accounts import UserAccount
from headrace.node_executor.system.c_programs import KEEPER
from tests.patience import PATIENCE


class Job:
    """A command that was started, and how it ended."""

    def __init__(
        self,
        keeping: Keeping,
        *command: str,
        env: dict[str, str] | None = None,
        limit: int = 1_000_000,
        account: UserAccount | None = None,
        where: str = "",
    ) -> None:
        environment = {"PATH": os.environ["PATH"], "WHERE": str(keeping.directory)} | (env or {})
        self.listen(keeping, keeping.launch(*command, env=environment, limit=limit, where=where)._replace(account=account))
        keeping.runtime.start(self.launch, self.listener)

    def listen(self, keeping: Keeping, launch: Launch) -> None:
        self.log = keeping.directory / "log"
        self.launch = launch
        self.at = 0
        loop = asyncio.get_running_loop()
        self.code: asyncio.Future[End] = loop.create_future()
        self._process: asyncio.Future[Running] = loop.create_future()
        self.listener = RuntimeListener(self._started, self._process.set_exception, self.code.set_result)

    def _started(self, running: Running, at: int) -> None:
        self.at = at
        self._process.set_result(running)

    async def runs(self) -> Running:
        async with asyncio.timeout(PATIENCE):
            return await self._process

    async def end(self) -> End:
        await self.runs()
        async with asyncio.timeout(PATIENCE):
            return await self.code

    async def ends(self) -> int | None:
        return (await self.end()).code

    @property
    def printed(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


class Adopted(Job):
    """What another one started, taken over; `found`: whether there was anything."""

    def __init__(self, keeping: Keeping, launch: Launch) -> None:
        self.listen(keeping, launch)
        self.found = keeping.runtime.adopt(launch, self.listener)


class Keeping:
    """A runtime on a directory, with keepers in C or in Python; another one on the same directory is its successor."""

    def __init__(self, directory: Path, program: str) -> None:
        self.directory = directory
        self.lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        self.spawner = Spawner(program, self.lock)
        self.runtime = ProcessRuntime(self.spawner, str(directory / "kept"))

    def launch(self, *command: str, env: dict[str, str], limit: int = 1_000_000, where: str = "") -> Launch:
        control = str(self.directory / "control")
        output = Output(str(self.directory / "log"), limit)
        return Launch("job", command, env | {"HEADRACE_CONTROL_DIR": control}, where or str(self.directory), control, output)

    def close(self) -> None:
        self.spawner.close()
        os.close(self.lock)


@pytest.fixture(scope="session", params=["c", "python"])
def program(request, tmp_path_factory) -> str:
    if request.param == "python":
        return ""
    path = native.built(KEEPER, str(tmp_path_factory.mktemp("built")))
    if not path:
        pytest.skip("there is no C compiler")
    return path


@pytest.fixture
async def keeping(tmp_path, program) -> AsyncIterator[Keeping]:
    one = Keeping(tmp_path, program)
    yield one
    one.close()
    await asyncio.to_thread(orphans.sweep, str(tmp_path / "control"))


def state_of(pid: int) -> str:
    """`T`: it stands still."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def contents(path: str) -> bytes:
    return Path(path).read_bytes()


async def appears(path: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        while not path.exists():  # noqa: ASYNC240 - a look at a local file
            await asyncio.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether the process has ended, even if it was not collected yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may go between opening the file and reading it
        return True


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("kill -PIPE $$", 141)]
)
async def test_the_exit_code_is_what_a_shell_would_say(keeping, tmp_path, script, code) -> None:
    assert await Job(keeping, "sh", "-c", script).ends() == code


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may run jobs as others")
@pytest.mark.parametrize("groups", [(), (44, 109)])
async def test_a_job_is_who_it_is_to_be_and_in_no_group_but_its_own_and_those_of_its_devices(keeping, groups) -> None:
    job = Job(keeping, "sh", "-c", "id -u; id -g; id -G", account=UserAccount(77, 78, "alice", groups), where="/")
    assert await job.ends() == 0
    assert job.printed.split("\n")[:3] == ["77", "78", " ".join(map(str, (78, *groups)))]


async def test_both_streams_go_to_one_file_in_order(keeping, tmp_path) -> None:
    job = Job(keeping, "sh", "-c", "echo one; echo two >&2; echo three")
    assert await job.ends() == 0
    assert job.printed == "one\ntwo\nthree\n"


async def test_a_job_runs_in_its_directory_with_its_environment_only_and_no_input(keeping, tmp_path) -> None:
    job = Job(keeping, "sh", "-c", "pwd; cat; env | sort", env={"A": "ä b"})
    assert await job.ends() == 0
    lines = job.printed.splitlines()
    assert lines[0] == str(tmp_path.resolve())
    assert {line for line in lines[1:] if not line.startswith(("_=", "OLDPWD=", "SHLVL="))} == {
        "A=ä b",
        f"PATH={os.environ['PATH']}",
        f"PWD={tmp_path.resolve()}",
        f"WHERE={tmp_path}",
        f"HEADRACE_CONTROL_DIR={tmp_path}/control",
    }


async def test_a_job_leads_its_own_session_with_default_signals(keeping, tmp_path) -> None:
    previous = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        script = 'read -r stat < /proc/self/stat; echo "$$ ${stat#*) }"; grep SigIgn /proc/self/status'
        job = Job(keeping, "sh", "-c", script)
        await job.ends()
    finally:
        signal.signal(signal.SIGUSR1, previous)
    first, ignored = job.printed.splitlines()
    own, _state, _parent, group, session = first.split()[:5]
    assert (group, session) == (own, own) == (str((await job.runs()).pid),) * 2
    assert int(ignored.split()[1], 16) & 0x7FFFFFFF == 0  # above are those of the C library itself


SAVER = 'trap "sleep 0.1; echo saved; exit 3" TERM; touch ready; while :; do sleep 0.01; done'
"""What takes a moment to save, once it is told to terminate."""


@pytest.mark.parametrize(
    "script",
    [
        "sh -c '{saver}'; echo never",
        "sh -c '{saver}' & sleep 1000",
        "setsid sh -c '{saver}' & exec sleep 1000",
        "setsid sh -c '(setsid sh -c \"$SAVER\" &) ; sleep 1000' & exec sleep 1000",
    ],
    ids=["in a wrapper", "in the background", "in a session of its own", "orphaned, in a session of its own"],
)
async def test_sigterm_goes_to_every_process_of_the_job_and_the_job_has_ended_when_all_have(keeping, tmp_path, script) -> None:
    job = Job(keeping, "sh", "-c", script.format(saver=SAVER), env={"SAVER": SAVER})
    await appears(tmp_path / "ready")
    (await job.runs()).terminate()
    assert await job.ends() == 143
    assert job.printed.replace("Terminated\n", "") == "saved\n"
    assert orphans.started_from(str(tmp_path / "control")) == []


async def test_what_goes_on_after_its_first_process_was_terminated_can_still_be_killed(keeping, tmp_path) -> None:
    script = "setsid sh -c 'trap \"\" TERM; touch ready; while :; do sleep 0.01; done' & exec sleep 1000"
    job = Job(keeping, "sh", "-c", script)
    await appears(tmp_path / "ready")
    first = (await job.runs()).pid
    (await job.runs()).terminate()
    async with asyncio.timeout(PATIENCE):
        while not gone(first):
            await asyncio.sleep(0.01)
    (await job.runs()).kill()
    assert await job.ends() == 143
    assert orphans.started_from(str(tmp_path / "control")) == []


async def test_a_stopped_job_hears_sigterm(keeping, tmp_path) -> None:
    job = Job(keeping, "sh", "-c", "trap 'exit 4' TERM; touch ready; while :; do sleep 0.01; done")
    await appears(tmp_path / "ready")
    os.kill((await job.runs()).pid, signal.SIGSTOP)
    (await job.runs()).terminate()
    assert await job.ends() == 4


async def test_what_ignores_sigterm_is_killed_with_all_its_children(keeping, tmp_path) -> None:
    script = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > child; touch ready; while :; do sleep 0.01; done' & wait"
    job = Job(keeping, "sh", "-c", script)
    await appears(tmp_path / "ready")
    (await job.runs()).terminate()
    (await job.runs()).kill()
    assert await job.ends() == 137
    child = int((tmp_path / "child").read_text())
    async with asyncio.timeout(PATIENCE):
        while not gone(child):
            await asyncio.sleep(0.01)


async def test_children_do_not_outlive_a_job_that_ends_by_itself(keeping, tmp_path) -> None:
    job = Job(keeping, "sh", "-c", "sleep 1000 & echo $!; exit 0")
    assert await job.ends() == 0
    child = int(job.printed)
    async with asyncio.timeout(PATIENCE):
        while not gone(child):
            await asyncio.sleep(0.01)


async def test_signals_to_a_job_that_has_ended_do_nothing(keeping, tmp_path) -> None:
    job = Job(keeping, "true")
    await job.ends()
    (await job.runs()).terminate()
    (await job.runs()).kill()


async def test_a_process_that_escapes_into_its_own_session_ends_with_the_job(keeping, tmp_path) -> None:
    script = "setsid sh -c 'echo $$ > escaped; mv escaped ready; exec sleep 1000' & while [ ! -e ready ]; do sleep 0.01; done"
    assert await Job(keeping, "sh", "-c", script).ends() == 0
    assert gone(int((tmp_path / "ready").read_text()))


async def test_of_a_job_that_prints_more_than_is_kept_the_head_and_the_end_are_kept(keeping, tmp_path) -> None:
    job = Job(
        keeping,
        "sh",
        "-c",
        "for i in $(seq 100); do echo line $i; done; head -c 500000 /dev/zero; echo end; exit 5",
        limit=4000,
    )
    assert await job.ends() == 5
    assert job.printed.startswith("line 1\nline 2\n")
    parts = [(start, contents(path)) for start, path in pieces(str(job.log))]
    assert len(parts) == 4
    assert all(len(data) <= 1000 for _, data in parts)
    start, last = parts[-1]
    assert last.endswith(b"end\n")
    assert start + len(last) == len("".join(f"line {i}\n" for i in range(1, 101))) + 500_004


async def test_two_who_print_into_one_log_lose_nothing(keeping, tmp_path) -> None:
    """A job and its callback."""
    loop = asyncio.get_running_loop()
    ends = []
    for name in ("job", "job.abort"):
        code: asyncio.Future[End] = loop.create_future()
        launch = keeping.launch(
            "sh", "-c", f"for i in $(seq 500); do echo {name} $i; done", env={"PATH": os.environ["PATH"]}, limit=40_000
        )
        keeping.runtime.start(launch._replace(name=name), RuntimeListener(lambda *_: None, code.set_exception, code.set_result))
        ends.append(code)
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*ends)
    lines = b"".join(contents(path) for _, path in pieces(str(tmp_path / "log"))).decode().splitlines()
    assert sorted(lines) == sorted(f"{name} {i}" for name in ("job", "job.abort") for i in range(1, 501))


async def test_a_successor_takes_over_what_runs_and_hears_how_it_ended(keeping, tmp_path, program) -> None:
    job = Job(keeping, "sh", "-c", "while [ ! -e release ]; do sleep 0.01; done; exit 6")
    pid = (await job.runs()).pid
    heir = Keeping(tmp_path, program)
    later = Adopted(heir, job.launch)
    assert (later.found, (await later.runs()).pid, later.at) == (True, pid, job.at)
    (tmp_path / "release").touch()
    assert await later.end() == await job.end()
    assert (await later.end()).code == 6
    heir.close()


async def test_a_job_outlives_its_spawner_and_what_ended_meanwhile_is_told_with_its_time(keeping, tmp_path, program) -> None:
    job = Job(keeping, "sh", "-c", "while [ ! -e release ]; do sleep 0.01; done; exit 6")
    await job.runs()
    keeping.spawner.close()
    (tmp_path / "release").touch()
    end = await job.end()
    heir = Keeping(tmp_path, program)
    later = Adopted(heir, job.launch)
    assert (later.found, await later.end(), later.at) == (True, end, job.at)
    assert job.at < end.at <= time.time() * 1e6
    heir.runtime.forget("job")
    assert not Adopted(heir, job.launch).found
    heir.close()


@pytest.mark.parametrize(
    ("script", "end"), [("kill -TERM $$", (143, False)), ("exit 143", (143, False)), ("exit 0", (0, False))]
)
async def test_an_end_without_sigterm_to_the_keeper_is_recorded_as_the_jobs_own(keeping, script, end) -> None:
    ended = await Job(keeping, "sh", "-c", script).end()
    assert (ended.code, ended.terminated) == end


@pytest.mark.parametrize(("on_term", "code"), [("exit 0", 0), ("exit 9", 9), ("trap - TERM; kill -TERM $$", 143)])
async def test_a_sigterm_that_the_keeper_got_is_recorded_with_the_end(keeping, tmp_path, program, on_term, code) -> None:
    job = Job(keeping, "sh", "-c", f"trap '{on_term}' TERM; touch running; while :; do sleep 0.01; done")
    await job.runs()
    await appears(tmp_path / "running")
    os.kill(int((tmp_path / "kept" / "job").read_text().split()[1]), signal.SIGTERM)
    ended = await job.end()
    assert (ended.code, ended.terminated) == (code, True)
    heir = Keeping(tmp_path, program)
    assert await Adopted(heir, job.launch).end() == ended
    heir.close()


async def test_where_the_keeper_is_killed_everything_of_the_job_ends_in_an_unknown_way(keeping, tmp_path) -> None:
    job = Job(keeping, "sh", "-c", "setsid sleep 1000 & sleep 1000")
    await job.runs()
    async with asyncio.timeout(PATIENCE):
        while len(orphans.started_from(str(tmp_path / "control"))) < 3:
            await asyncio.sleep(0.01)
    os.kill(int((tmp_path / "kept" / "job").read_text().split()[1]), signal.SIGKILL)
    assert (await job.end()).code is None
    assert orphans.started_from(str(tmp_path / "control")) == []


async def test_the_number_of_a_dead_keeper_is_not_believed(tmp_path) -> None:
    (tmp_path / "job").write_text(f"started {os.getpid()} {os.getpid()} 5\n")
    assert read_state(str(tmp_path / "job")) == KeeperRecord(os.getpid(), 5, -1, None)
    (tmp_path / "job").write_text("star")
    assert read_state(str(tmp_path / "job")) is None


async def test_a_spawner_that_is_killed_is_replaced_with_the_next_order(keeping, tmp_path) -> None:
    first = Job(keeping, "sleep", "1000")
    await first.runs()
    os.kill(keeping.spawner.pid, signal.SIGKILL)
    async with asyncio.timeout(PATIENCE):
        while keeping.spawner.pid:
            await asyncio.sleep(0.01)
    keeping.runtime.forget("job")
    assert await Job(keeping, "true").ends() == 0
    (await first.runs()).kill()
    async with asyncio.timeout(PATIENCE):
        await first.code


async def test_what_is_unknown_by_now_is_killed_and_forgotten(keeping, tmp_path) -> None:
    job = Job(keeping, "sleep", "1000")
    await job.runs()
    assert keeping.runtime.abandon({"job"}) == []
    assert keeping.runtime.abandon(()) == ["job"]
    async with asyncio.timeout(PATIENCE):
        await job.code
    assert os.listdir(tmp_path / "kept") == []


async def test_a_job_can_gain_no_privileges(keeping) -> None:
    job = Job(keeping, "sh", "-c", "grep NoNewPrivs /proc/self/status")
    await job.ends()
    assert job.printed.split() == ["NoNewPrivs:", "1"]


async def refused(keeping: Keeping, *command: str, env: dict[str, str] | None = None, where: str = "") -> CannotStart:
    refusal: asyncio.Future[CannotStart] = asyncio.get_running_loop().create_future()
    environment = {"PATH": f"{keeping.directory}:/usr/bin:/bin"} | (env or {})
    launch = keeping.launch(*command, env=environment, where=where)
    keeping.runtime.start(launch, RuntimeListener(lambda *_: None, refusal.set_result, lambda _: None))
    async with asyncio.timeout(PATIENCE):
        return await refusal


async def test_a_command_that_is_not_there_is_the_jobs_fault(keeping) -> None:
    for command, message in [
        (("no-such-command",), "command not found: no-such-command"),
        (("./nope",), "command not found: ./nope"),
        ((), "the command is missing, or contains a NUL byte"),
        (("a\0b",), "the command is missing, or contains a NUL byte"),
    ]:
        error = await refused(keeping, *command)
        assert (error.message, error.exit_code) == (message, 127)


async def test_a_file_that_cannot_be_executed_is_the_jobs_fault(keeping, tmp_path) -> None:
    (tmp_path / "data").write_text("no program")
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    for command, code, message in [
        ("data", 126, f"{tmp_path}/data is not executable"),
        ("./data", 126, "./data cannot be run: Permission denied"),
        ("./script", 127, "./script cannot be run: the interpreter it names is not there"),
    ]:
        error = await refused(keeping, command)
        assert (error.message, error.exit_code) == (message, code)
    assert os.listdir(tmp_path / "kept") == []


async def test_a_directory_that_is_not_there_is_the_jobs_fault(keeping, tmp_path) -> None:
    error = await refused(keeping, "true", where=str(tmp_path / "gone"))
    assert error.exit_code == 126
    assert error.message == f"the working directory {tmp_path}/gone cannot be used: No such file or directory"


async def test_nul_bytes_in_the_environment_are_the_jobs_fault(keeping) -> None:
    assert (await refused(keeping, "true", env={"A": "a\0b"})).exit_code == 126


async def test_a_node_that_cannot_keep_a_job_is_at_fault_itself(keeping, tmp_path) -> None:
    """R36."""
    (tmp_path / "kept" / "job").touch()
    error = await refused(keeping, "true")
    assert (error.message, error.exit_code) == ("the node cannot start a process (state): File exists", None)


async def test_without_a_spawner_the_node_is_at_fault_itself(keeping, monkeypatch) -> None:
    monkeypatch.setattr(keeping.spawner, "_command", ("/no/such/program",))
    error = await refused(keeping, "true")
    assert (error.message, error.exit_code) == ("the node cannot start a process: No such file or directory", None)


async def begun(
    keeping: Keeping, *command: str, path: str, account: UserAccount | None = None, prefix: tuple[str, ...] = ()
) -> str:
    """What a command prints that is looked for in this PATH."""
    job = Job.__new__(Job)
    job.listen(keeping, keeping.launch(*command, env={"PATH": path})._replace(account=account, prefix=prefix))
    keeping.runtime.start(job.launch, job.listener)
    assert await job.ends() == 0
    keeping.runtime.forget("job")
    return job.printed.splitlines()[-1]


def program_in(folder: Path, name: str, mode: int = 0o755) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\necho {folder.name}\n")
    (folder / name).chmod(mode)


async def test_a_program_is_looked_for_where_the_jobs_path_says(keeping, tmp_path) -> None:
    for name, mode in (("closed", 0o644), ("one", 0o755), ("two", 0o755)):
        program_in(tmp_path / name, "tool", mode)
    (tmp_path / "folders" / "tool").mkdir(parents=True)
    (tmp_path / "here").write_text("#!/bin/sh\necho here\n")
    (tmp_path / "here").chmod(0o755)
    path = f"/nowhere:/dev/null:{'x' * 5000}:folders:{tmp_path}/closed"
    assert await begun(keeping, "tool", path=f"{path}:one:{tmp_path}/two") == "one"
    assert await begun(keeping, "tool", path=f"{path}:{tmp_path}/two:one") == "two"
    assert await begun(keeping, "here", path=f"{path}:") == "here"
    assert await begun(keeping, "one/tool", path="") == "one"
    assert await begun(keeping, f"{tmp_path}/two/tool", path="") == "two"
    assert await begun(keeping, "tool", path="one", prefix=("/bin/echo",)) == f"{tmp_path}/one/tool"


async def test_without_a_path_a_program_is_looked_for_where_those_of_the_system_are(keeping) -> None:
    job = Job.__new__(Job)
    job.listen(keeping, keeping.launch("echo", "found", env={}))
    keeping.runtime.start(job.launch, job.listener)
    assert (await job.ends(), job.printed) == (0, "found\n")


async def test_of_several_files_that_are_not_executable_the_last_is_named(keeping, tmp_path) -> None:
    for name in ("one", "two"):
        program_in(tmp_path / name, "tool", 0o644)
    error = await refused(keeping, "tool", env={"PATH": "one:two:/nowhere"})
    assert (error.message, error.exit_code) == (f"{tmp_path}/two/tool is not executable", 126)


async def test_a_text_without_its_interpreter_cannot_be_run(keeping, tmp_path) -> None:
    (tmp_path / "text").write_text("echo never\n")
    (tmp_path / "text").chmod(0o755)
    for command in ("text", "./text"):
        error = await refused(keeping, command)
        assert (error.message, error.exit_code) == (f"{command} cannot be run: Exec format error", 126)


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that every account may look into, unlike that of a test."""
    with tempfile.TemporaryDirectory(prefix="headrace-", dir="/tmp") as top:
        os.chmod(top, 0o755)
        yield Path(top)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may run jobs as others")
async def test_a_job_learns_nothing_of_directories_that_its_account_may_not_look_into(keeping, public) -> None:
    for name, mode in (("secret", 0o755), ("secret_too", 0o644), ("open", 0o755)):
        program_in(public / name, "tool", mode)
    for name in ("secret", "secret_too"):
        (public / name).chmod(0o700)
    path, alice = f"{public}/secret:{public}/secret_too", UserAccount(77, 78, "alice")
    refusal: asyncio.Future[CannotStart] = asyncio.get_running_loop().create_future()
    launch = keeping.launch("tool", env={"PATH": path}, where="/")._replace(account=alice)
    keeping.runtime.start(launch, RuntimeListener(lambda *_: None, refusal.set_result, lambda _: None))
    async with asyncio.timeout(PATIENCE):
        error = await refusal
    assert (error.message, error.exit_code) == ("command not found: tool", 127)
    job = Job.__new__(Job)
    job.listen(keeping, launch._replace(env={"PATH": f"{path}:{public}/open"}))
    keeping.runtime.start(job.launch, job.listener)
    assert (await job.ends(), job.printed) == (0, "open\n")


@pytest.fixture
def dead(tmp_path) -> Iterator[Path]:
    """A directory on a file system that does not answer."""
    folder = tmp_path / "dead"
    folder.mkdir()
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        pytest.skip("there is no /dev/fuse here")
    libc = ctypes.CDLL(None, use_errno=True)
    how = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()},allow_other".encode()
    if libc.mount(b"dead", os.fsencode(folder), b"fuse", 0, how):
        os.close(device)
        pytest.skip(f"nothing can be mounted here: {os.strerror(ctypes.get_errno())}")
    yield folder
    os.close(device)
    libc.umount2(os.fsencode(folder), 2)


@pytest.mark.parametrize("where", ["path", "directory"])
async def test_a_directory_that_does_not_answer_holds_up_its_job_only_and_not_for_ever(keeping, tmp_path, dead, where) -> None:
    """R36: it may be there on another node."""
    runtime = ProcessRuntime(keeping.spawner, str(tmp_path / "kept"), within=2.0)
    refusal: asyncio.Future[CannotStart] = asyncio.get_running_loop().create_future()
    launch = keeping.launch("tool", env={"PATH": f"{dead}/bin"})._replace(name="stuck")
    if where == "directory":
        launch = launch._replace(directory=f"{dead}/home")
    runtime.start(launch, RuntimeListener(lambda *_: None, refusal.set_result, lambda _: None))
    assert await Job(keeping, "true").ends() == 0
    assert not refusal.done()
    async with asyncio.timeout(PATIENCE):
        error = await refusal
    message = "tool did not begin in time: its working directory or a directory of its PATH does not answer"
    assert (error.message, error.exit_code) == (message, None)
    assert os.listdir(tmp_path / "kept") == ["job"]


async def test_a_suspended_job_stands_still_with_its_group_and_goes_on_where_it_was(keeping, tmp_path) -> None:
    job = Job(keeping, "sh", "-c", "sleep 0.05 & wait $!; touch $WHERE/first; sleep 60 & echo $! >$WHERE/child; wait; echo on")
    await appears(tmp_path / "child")
    async with asyncio.timeout(PATIENCE):
        while not (child := (tmp_path / "child").read_text().strip()):
            await asyncio.sleep(0.01)
    (await job.runs()).suspend()
    async with asyncio.timeout(PATIENCE):
        while {state_of((await job.runs()).pid), state_of(int(child))} != {"T"}:
            await asyncio.sleep(0.01)
    (await job.runs()).resume()
    os.kill(int(child), signal.SIGTERM)
    assert (await job.ends(), job.printed) == (0, "on\n")
    (await job.runs()).suspend()
    (await job.runs()).resume()


async def test_a_suspended_job_can_be_killed(keeping, tmp_path) -> None:
    job = Job(keeping, "sleep", "60")
    (await job.runs()).suspend()
    (await job.runs()).kill()
    assert await job.ends() == 137


def test_processes_have_the_whole_face_of_a_runtime() -> None:
    for face, made in ((Runtime, ProcessRuntime), (Running, Process)):
        assert [name for name in vars(face) if not name.startswith("_") and not hasattr(made, name)] == []


async def test_a_job_is_started_through_what_stands_before_it(keeping) -> None:
    """A program that makes its surroundings, then the job's own program by its whole path."""
    job = Job.__new__(Job)
    launch = keeping.launch("sh", "-c", 'echo "$WALL $1"', "sh", "x", env={"PATH": os.environ["PATH"]})
    job.listen(keeping, launch._replace(prefix=("/usr/bin/env", "WALL=up")))
    keeping.runtime.start(job.launch, job.listener)
    assert (await job.ends(), job.printed) == (0, "up x\n")


async def test_a_job_without_a_group_begins_in_the_cgroup_that_it_is_told(keeping, unified) -> None:
    group = f"{unified}/within"
    os.mkdir(group)
    job = Job.__new__(Job)
    launch = keeping.launch("sh", "-c", "grep ^0:: /proc/self/cgroup", env={"PATH": os.environ["PATH"]})
    job.listen(keeping, launch._replace(within=group))
    keeping.runtime.start(job.launch, job.listener)
    assert (await job.ends(), job.printed.strip().endswith("/within")) == (0, True)
    os.rmdir(group)
