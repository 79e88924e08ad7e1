"""Real processes, short ones; every wait is for something that happens."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import signal
from pathlib import Path

import pytest

from headrace.node_executor.runtimes import CannotStart, Launch, Running, Runtime
from headrace.node_executor.runtimes.output import Output
from headrace.node_executor.runtimes.process import Process, ProcessRuntime, find_program
from tests.patience import PATIENCE


class Job:
    """A command that was started, and how it ended."""

    def __init__(self, directory: Path, *command: str, env: dict[str, str] | None = None, limit: int = 1_000_000) -> None:
        self.log = directory / "log"
        self.code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._output = Output(str(self.log), limit)
        environment = {"PATH": os.environ["PATH"], "WHERE": str(directory)} | (env or {})
        launch = Launch(command, environment, str(directory), self._output)
        self.process: Process = ProcessRuntime().start(launch, self.code.set_result)

    async def ends(self) -> int:
        async with asyncio.timeout(PATIENCE):
            code = await self.code
        self._output.close()
        return code

    @property
    def printed(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


def state_of(pid: int) -> str:
    """`T`: it stands still."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


async def appears(path: Path) -> None:
    async with asyncio.timeout(PATIENCE):
        while not path.exists():  # noqa: ASYNC240 - a look at a local file
            await asyncio.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether the process has ended, be it that nobody has collected it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137), ("kill -PIPE $$", 141)]
)
async def test_the_exit_code_is_what_a_shell_would_say(tmp_path, script, code) -> None:
    assert await Job(tmp_path, "sh", "-c", script).ends() == code


async def test_both_streams_go_to_one_file_in_order(tmp_path) -> None:
    job = Job(tmp_path, "sh", "-c", "echo one; echo two >&2; echo three")
    assert await job.ends() == 0
    assert job.printed == "one\ntwo\nthree\n"


async def test_a_job_runs_in_its_directory_with_its_environment_only_and_no_input(tmp_path) -> None:
    job = Job(tmp_path, "sh", "-c", "pwd; cat; env | sort", env={"A": "ä b"})
    assert await job.ends() == 0
    lines = job.printed.splitlines()
    assert lines[0] == str(tmp_path.resolve())
    assert {line for line in lines[1:] if not line.startswith(("_=", "OLDPWD=", "SHLVL="))} == {
        "A=ä b",
        f"PATH={os.environ['PATH']}",
        f"PWD={tmp_path.resolve()}",
        f"WHERE={tmp_path}",
    }


async def test_a_job_leads_its_own_session_with_default_signals(tmp_path) -> None:
    previous = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        script = 'read -r stat < /proc/self/stat; echo "$$ ${stat#*) }"; grep SigIgn /proc/self/status'
        job = Job(tmp_path, "sh", "-c", script)
        await job.ends()
    finally:
        signal.signal(signal.SIGUSR1, previous)
    first, ignored = job.printed.splitlines()
    own, _state, _parent, group, session = first.split()[:5]
    assert (group, session) == (own, own) == (str(job.process.pid),) * 2
    assert int(ignored.split()[1], 16) & 0x7FFFFFFF == 0  # above are those of the C library itself


async def test_sigterm_goes_to_the_job_alone(tmp_path) -> None:
    script = 'trap "echo asked; exit 3" TERM; (trap "echo child asked" TERM; touch ready; while :; do sleep 0.01; done) & wait'
    job = Job(tmp_path, "sh", "-c", script)
    await appears(tmp_path / "ready")
    job.process.terminate()
    assert await job.ends() == 3
    assert job.printed == "asked\n"


async def test_a_stopped_job_hears_sigterm(tmp_path) -> None:
    job = Job(tmp_path, "sh", "-c", "trap 'exit 4' TERM; touch ready; while :; do sleep 0.01; done")
    await appears(tmp_path / "ready")
    os.kill(job.process.pid, signal.SIGSTOP)
    job.process.terminate()
    assert await job.ends() == 4


async def test_what_ignores_sigterm_is_killed_with_all_its_children(tmp_path) -> None:
    script = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > child; touch ready; while :; do sleep 0.01; done' & wait"
    job = Job(tmp_path, "sh", "-c", script)
    await appears(tmp_path / "ready")
    job.process.terminate()
    job.process.kill()
    assert await job.ends() == 137
    child = int((tmp_path / "child").read_text())
    async with asyncio.timeout(PATIENCE):
        while not gone(child):
            await asyncio.sleep(0.01)


async def test_children_do_not_outlive_a_job_that_ends_by_itself(tmp_path) -> None:
    job = Job(tmp_path, "sh", "-c", "sleep 1000 & echo $!; exit 0")
    assert await job.ends() == 0
    child = int(job.printed)
    async with asyncio.timeout(PATIENCE):
        while not gone(child):
            await asyncio.sleep(0.01)


async def test_signals_to_a_job_that_has_ended_do_nothing(tmp_path) -> None:
    job = Job(tmp_path, "true")
    await job.ends()
    job.process.terminate()
    job.process.kill()


async def test_somebody_who_escaped_and_holds_the_pipe_is_not_waited_for(tmp_path) -> None:
    job = Job(
        tmp_path,
        "sh",
        "-c",
        "setsid sh -c 'echo $$ > escaped; mv escaped ready; exec sleep 1000' & while [ ! -e ready ]; do sleep 0.01; done",
    )
    assert await job.ends() == 0
    os.kill(int((tmp_path / "ready").read_text()), signal.SIGKILL)


async def test_a_job_that_prints_more_than_is_kept_goes_on(tmp_path) -> None:
    job = Job(tmp_path, "sh", "-c", "head -c 500000 /dev/zero; exit 5", limit=1000)
    assert await job.ends() == 5
    assert job.printed.endswith("[headrace] the output is longer than 1000 bytes; the rest is dropped\n")


def start(directory: Path, *command: str, env: dict[str, str] | None = None, where: str = "") -> None:
    environment = {"PATH": f"{directory}:/usr/bin:/bin"} | (env or {})
    output = Output(str(directory / "log"), 1000)
    ProcessRuntime().start(Launch(command, environment, where or str(directory), output), lambda _code: None)


async def test_a_command_that_is_not_there_is_the_jobs_fault(tmp_path) -> None:
    with pytest.raises(CannotStart, match="command not found: no-such-command") as error:
        start(tmp_path, "no-such-command")
    assert error.value.exit_code == 127
    with pytest.raises(CannotStart, match=r"command not found: \./nope"):
        start(tmp_path, "./nope")
    with pytest.raises(CannotStart, match="there is no command"):
        start(tmp_path)


async def test_a_file_that_cannot_be_executed_is_the_jobs_fault(tmp_path) -> None:
    (tmp_path / "data").write_text("no program")
    (tmp_path / "script").write_text("#!/no/such/interpreter\n")
    (tmp_path / "script").chmod(0o755)
    for command, code, message in [
        ("data", 126, "data is not executable"),
        ("./data", 126, r"\./data cannot be run: Permission denied"),
        ("./script", 127, "the interpreter it names is not there"),
    ]:
        with pytest.raises(CannotStart, match=message) as error:
            start(tmp_path, command)
        assert error.value.exit_code == code


async def test_a_directory_that_is_not_there_is_the_jobs_fault(tmp_path) -> None:
    with pytest.raises(CannotStart, match=r"the working directory .*/gone cannot be used") as error:
        start(tmp_path, "true", where=str(tmp_path / "gone"))
    assert error.value.exit_code == 126


@pytest.mark.parametrize(("command", "env"), [(("true", "a\0b"), {}), (("true",), {"A": "a\0b"})])
async def test_nul_bytes_are_the_jobs_fault(tmp_path, command, env) -> None:
    with pytest.raises(CannotStart) as error:
        start(tmp_path, *command, env=env)
    assert error.value.exit_code in {126, 127}


async def test_a_node_without_room_for_a_process_is_at_fault_itself(tmp_path, monkeypatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "posix_spawn", refuse)
    open_before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(CannotStart, match="the node cannot start a process") as error:
        start(tmp_path, "true")
    assert error.value.exit_code is None
    assert len(os.listdir("/proc/self/fd")) == open_before


async def test_a_process_that_cannot_be_watched_is_killed(tmp_path, monkeypatch) -> None:
    def refuse(_pid: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(CannotStart, match="Too many open files"):
        start(tmp_path, "sleep", "1000")


def test_a_program_is_looked_for_where_the_jobs_path_says(tmp_path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sleep").symlink_to(shutil.which("sleep") or "")
    path = {"PATH": f"/nowhere:bin:{tmp_path}"}
    assert find_program(("sleep",), path, str(tmp_path)) == f"{tmp_path}/bin/sleep"
    assert find_program(("bin/sleep",), {}, str(tmp_path)) == f"{tmp_path}/bin/sleep"
    assert find_program(("/bin/sleep",), {}, str(tmp_path)) == "/bin/sleep"


async def test_a_suspended_job_stands_still_with_its_group_and_goes_on_where_it_was(tmp_path) -> None:
    job = Job(tmp_path, "sh", "-c", "sleep 0.05 & wait $!; touch $WHERE/first; sleep 60 & echo $! >$WHERE/child; wait; echo on")
    await appears(tmp_path / "child")
    async with asyncio.timeout(PATIENCE):
        while not (child := (tmp_path / "child").read_text().strip()):
            await asyncio.sleep(0.01)
    job.process.suspend()
    async with asyncio.timeout(PATIENCE):
        while {state_of(job.process.pid), state_of(int(child))} != {"T"}:
            await asyncio.sleep(0.01)
    job.process.resume()
    os.kill(int(child), signal.SIGTERM)
    assert (await job.ends(), job.printed) == (0, "on\n")
    job.process.suspend()
    job.process.resume()


async def test_a_suspended_job_can_be_killed(tmp_path) -> None:
    job = Job(tmp_path, "sleep", "60")
    job.process.suspend()
    job.process.kill()
    assert await job.ends() == 137


def test_processes_have_the_whole_face_of_a_runtime() -> None:
    assert {name for name in vars(Runtime) if not name.startswith("_")} == {"start"}
    assert {name for name in vars(Running) if not name.startswith("_")} == {"pid", "terminate", "suspend", "resume", "kill"}
    assert hasattr(ProcessRuntime, "start")
    assert all(hasattr(Process, name) for name in ("pid", "terminate", "suspend", "resume", "kill"))
