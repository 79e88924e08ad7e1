"""Keeps jobs, so that they outlive the executor: run as a script, without site-packages, if `keeper.c` could not be built.

    keeper ORDERS REPORTS LOCK PADDING      (numbers of descriptors; the padding is room for a longer name in `ps`)

The *spawner* is this program as the executor starts it. It reads orders, forks a *keeper* for each, and ends with the executor. A keeper
starts one job as the leader of its own session, and stays: it writes the job's output into its log, passes signals on, and when the job
ends, kills and collects all that is left below it (orphans become its children), and records how and when. It depends on no other
process.

- An order, on ORDERS: its size in four bytes, little-endian; then texts, each ended by a NUL: id, state file, log, the log's limit,
  directory, milliseconds in which it has to begin, uid, gid (-1: stay), cgroup of version 2 to begin in (or empty), its `cgroup.kill` (or
  empty); then lists, each after its length: files to write a 0 into (cgroups of version 1), supplementary groups, the command that starts
  it (or nothing), command, environment.
- The program is looked for in the job's PATH by the job's own process, as its account: any directory there may be the job's.
- A report, on REPORTS (one message each): `ID started PID MICROSECONDS` with a pidfd of the keeper, or `ID failed STAGE ERRNO PLACE`;
  PLACE: the number of the last folder of the PATH that has a file of the command's name which is not executable; -1: none has.
- The state file, locked as long as the keeper lives: `started KEEPER PID MICROSECONDS`, then `ended CODE MICROSECONDS`, and `terminated` if
  the keeper got TERM before, from any process.
- Signals that a keeper takes, each for every process of the job: TERM (which continues them as well), TSTP, CONT, and USR1 to kill.
  After TERM the job ends with the last of its processes; otherwise with its first one, and what that leaves behind is killed.
- LOCK is released once the state file says what was started: the next process that takes that lock finds every job.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import select
import signal
import socket
import stat
import sys
import time
from typing import NamedTuple, NoReturn

if __name__ == "__main__":
    sys.path.append(os.path.abspath(f"{__file__}/../../../.."))
from headrace.node_executor.system.log_writing import Log

CHUNK = 64 * 1024
LOOKS = 8  # maximum, against processes that fork while they are looked for

_PDEATHSIG, _NO_NEW_PRIVS, _SUBREAPER = 1, 38, 36
_PASSED_ON: dict[int, tuple[int, ...]] = {
    signal.SIGTERM: (signal.SIGTERM, signal.SIGCONT),  # a stopped process cannot answer
    signal.SIGTSTP: (signal.SIGSTOP,),
    signal.SIGCONT: (signal.SIGCONT,),
    signal.SIGUSR1: (signal.SIGKILL,),
}
_libc = ctypes.CDLL(None, use_errno=True)


class Job(NamedTuple):
    """An order, as read from ORDERS."""

    id: str
    state: str
    log: str
    limit: int
    directory: str
    wait: int
    uid: int
    gid: int
    group: str
    kill: str
    enter: list[str]
    groups: list[int]
    prefix: list[str]
    arguments: list[str]
    environment: list[str]


class Fault(Exception):
    """The job could not be started: at which stage, the errno, and the place of a file that is not executable."""

    def __init__(self, stage: str, number: int, place: int = -1) -> None:
        super().__init__(stage, number)
        self.stage, self.number, self.place = stage, number, place


def read_job(payload: bytes) -> Job:
    """Decode the order in `payload`."""
    texts = iter([os.fsdecode(text) for text in payload.split(b"\0")])

    def several() -> list[str]:
        return [next(texts) for _ in range(int(next(texts)))]

    names = [next(texts) for _ in range(10)]
    job_id, state, log, limit, directory, wait, uid, gid, group, kill = names
    enter, groups = several(), [int(number) for number in several()]
    return Job(
        *(job_id, state, log, int(limit), directory, int(wait), int(uid), int(gid), group, kill),
        *(enter, groups, several(), several(), several()),
    )


class Keeper:
    """Keeps one job, in a process of its own."""

    def __init__(self, job: Job, reports: socket.socket, lock: int) -> None:
        self._job = job
        self._reports = reports
        self._lock = lock
        self._spawner = os.getppid()
        self._pid = 0
        self._state = -1
        self._terminating = self._killed = False
        self._code: int | None = None

    def run(self) -> None:
        """Run from the order to the job's end."""
        os.setsid()
        _libc.prctl(_SUBREAPER, 1, 0, 0, 0)
        woken, wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *_PASSED_ON):
            signal.signal(number, lambda *_: None)
        try:
            output = self._start()
        except Fault as fault:
            self._failed(fault)
            return
        self._keep(woken, output)

    def _start(self) -> int:
        """Start the job and report it. Raises `Fault`."""
        try:
            self._state = os.open(self._job.state, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._state, fcntl.LOCK_EX)
            output, theirs = os.pipe2(os.O_CLOEXEC)
        except OSError as error:
            raise Fault("state", error.errno or 0) from None
        self._pid = self._spawn(theirs)
        os.close(theirs)
        os.set_blocking(output, False)
        at = time.time_ns() // 1_000
        try:
            os.write(self._state, f"started {os.getpid()} {self._pid} {at}\n".encode())
        except OSError as error:
            self._kill_all()
            self._collect()
            raise Fault("state", error.errno or 0) from None
        os.close(self._lock)  # from here on the next executor finds it
        own = os.pidfd_open(os.getpid())
        with contextlib.suppress(OSError):
            socket.send_fds(self._reports, [f"{self._job.id} started {self._pid} {at}".encode()], [own])
        os.close(own)
        self._reports.close()
        return output

    def _spawn(self, output: int) -> int:
        read, faults = os.pipe2(os.O_CLOEXEC)
        try:
            pid = os.fork()
        except OSError as error:
            raise Fault("fork", error.errno or 0) from None
        if pid == 0:
            self._become(output, faults)
        os.close(faults)
        if not select.select([read], [], [], self._job.wait / 1000)[0]:
            _send(pid, signal.SIGKILL)  # not waited for: it may itself wait for a disk that does not answer
            raise Fault("late", errno.ETIMEDOUT)
        report = os.read(read, 64)
        os.close(read)
        if report:
            os.waitpid(pid, 0)
            stage, number, place = report.decode().split()
            raise Fault(stage, int(number), int(place))
        return pid

    def _become(self, output: int, faults: int) -> NoReturn:
        """Turn the job's own process into the job."""
        stage = "signals"
        try:
            signal.set_wakeup_fd(-1)
            for number in range(1, 32):  # the signals above are those of the C library itself
                if number not in {signal.SIGKILL, signal.SIGSTOP}:
                    signal.signal(number, signal.SIG_DFL)
            os.setsid()
            stage = "cgroup"
            for path in [*self._job.enter, *([f"{self._job.group}/cgroup.procs"] if self._job.group else [])]:
                _write(path, b"0")
            stage = "output"
            os.dup2(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            stage = "account"
            if self._job.gid >= 0:
                os.setgroups(self._job.groups)
                os.setresgid(self._job.gid, self._job.gid, self._job.gid)
            if self._job.uid >= 0:
                os.setresuid(self._job.uid, self._job.uid, self._job.uid)
            _libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
            _libc.prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            stage = "directory"
            os.chdir(self._job.directory)
            environment = dict(variable.split("=", 1) for variable in self._job.environment)
            arguments, program = self._job.arguments, find(self._job.arguments[0], self._job.directory, environment.get("PATH"))
            stage = "exec"
            if self._job.prefix:
                stage, arguments = "prefix", [*self._job.prefix, program, *arguments[1:]]
            os.execve(self._job.prefix[0] if self._job.prefix else program, arguments, environment)  # noqa: S606 - as ordered
        except Fault as fault:
            os.write(faults, f"{fault.stage} {fault.number} {fault.place}".encode())
        except OSError as error:
            stage = "interpreter" if stage == "exec" and error.errno == errno.ENOENT and os.path.exists(program) else stage
            os.write(faults, f"{stage} {error.errno} -1".encode())
        os._exit(126)

    def _failed(self, fault: Fault) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._job.state)
        with contextlib.suppress(OSError):
            self._reports.send(f"{self._job.id} failed {fault.stage} {fault.number} {fault.place}".encode())

    def _keep(self, woken: int, output: int) -> None:
        log = Log(self._job.log, self._job.limit)
        wanted = select.poll()
        wanted.register(woken, select.POLLIN)
        wanted.register(output, select.POLLIN)
        over = False
        while not over:
            for descriptor, _ in wanted.poll():
                if descriptor == woken:
                    over = self._handle(os.read(woken, 64))
                elif _pass_on(output, log) is None:
                    wanted.unregister(output)
        ended = time.time_ns() // 1_000
        self._kill_all()
        self._collect()
        left = 64
        while left and _pass_on(output, log):
            left -= 1
        terminated = "terminated\n" if self._terminating else ""
        os.write(self._state, f"ended {self._code} {ended}\n{terminated}".encode())
        if os.getppid() != self._spawner:  # the executor is not waiting for it now
            os.fdatasync(self._state)

    def _handle(self, numbers: bytes) -> bool:
        """Pass signals on; returns whether the job is over: with its first process, or, once it was told to terminate, with its last."""
        for number in numbers:
            self._terminating |= number == signal.SIGTERM
            self._killed |= number == signal.SIGUSR1
            for passed_on in _PASSED_ON.get(number, ()):
                _send_all(passed_on)
        if self._code is None and (end := os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)):
            self._code = end.si_status if end.si_code == os.CLD_EXITED else 128 + end.si_status
            if self._terminating and not self._killed:
                os.waitpid(self._pid, 0)
                self._pid = 0
        if self._code is not None and (self._pid or self._killed):
            return True
        with contextlib.suppress(ChildProcessError):
            while (other := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and other.si_pid != self._pid:
                os.waitpid(other.si_pid, 0)
            return False
        return True  # no child is left, so the job is over

    def _kill_all(self) -> None:
        if self._pid:  # it has not been collected
            _send(-self._pid, signal.SIGKILL)
        if self._job.kill:
            with contextlib.suppress(OSError):
                _write(self._job.kill, b"1")
        _send_all(signal.SIGKILL)

    def _collect(self) -> None:
        self._pid = 0  # from here on its number may be another process's
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, _ = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    time.sleep(0.002)
                    self._kill_all()


def find(name: str, directory: str, path: str | None) -> str:
    """Return the file that a command in `directory` means, as a shell with this PATH would find it. Raises `Fault`."""
    number, place = errno.ENOENT, -1
    for count, folder in enumerate([""] if "/" in name else (os.defpath if path is None else path).split(":")):
        program = os.path.join(directory, folder, name)
        try:
            kind = os.stat(program).st_mode
        except OSError as error:
            number = error.errno or 0
            continue
        if not stat.S_ISDIR(kind) and os.access(program, os.X_OK):
            return program
        number, place = errno.EACCES, count if stat.S_ISREG(kind) else place
    raise Fault("search", number, place)


def _pass_on(output: int, log: Log) -> bool | None:
    """Write one piece of output, if there is any; returns whether there was one, or None at the end."""
    try:
        data = os.read(output, CHUNK)
    except BlockingIOError:
        return False
    if not data:
        return None
    log.write(data)
    return True


def below() -> list[int]:
    """Return the processes below this one. Their orphans become its children, so all of the job is always below it."""
    found = _children(os.getpid())
    for pid in found:
        found += [child for child in _children(pid) if child not in found]
    return found


def _children(pid: int) -> list[int]:
    """Return the children of a process; a child is listed with the thread that forked it."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def _send_all(number: int) -> None:
    """Signal every process: the list is read until two readings agree, at most `LOOKS` times, because processes may fork meanwhile."""
    found = below()
    looks = LOOKS
    while looks and found != (found := below()):
        looks -= 1
    for pid in found:
        _send(pid, number)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _write(path: str, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, data)
    finally:
        os.close(file)


def _read(file: int, size: int) -> bytes:
    """Return `size` bytes, or fewer at the end."""
    data = b""
    while len(data) < size and (part := os.read(file, size - len(data))):
        data += part
    return data


def spawner(orders: int, reports: int, lock: int) -> None:
    """Fork a keeper for each order, until the executor is gone."""
    for descriptor in (orders, reports, lock):
        os.set_inheritable(descriptor, False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)  # it ends with the executor, not with the terminal
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    answers = socket.socket(fileno=reports)
    while size := int.from_bytes(_read(orders, 4), "little"):
        payload = _read(orders, size)
        try:
            pid = os.fork()
        except OSError as error:
            answers.send(payload.partition(b"\0")[0] + b" failed fork %d -1" % (error.errno or errno.EAGAIN))
            continue
        if pid == 0:
            os.close(orders)
            try:
                Keeper(read_job(payload), answers, lock).run()
            finally:
                os._exit(0)


if __name__ == "__main__":
    spawner(*(int(number) for number in sys.argv[1:4]))
