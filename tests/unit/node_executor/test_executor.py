"""The executor with a runtime that does what the test says; directories and files are real."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.contracts.facts import (
    AnyFact,
    CheckpointRegisteredV1,
    LeaseEndedV1,
    LeaseResumedV1,
    LeaseRungV1,
    LeaseStartedV1,
    LeaseSuspendedV1,
    NodeRegisteredV1,
)
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.messages.orders import LogsRequest, NodeAnswer, Orders, StartOrder, StopOrder
from headrace.contracts.messages.queries import LogsAnswer
from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.core.node import Node
from headrace.node_executor.dependencies import ExecutorDependencies
from headrace.node_executor.devices import Devices
from headrace.node_executor.devices.simulated import simulated
from headrace.node_executor.enforcement import CannotEnclose, EnforcementRequest, Entered
from headrace.node_executor.enforcement.enforcement import Enforcement, Mechanisms
from headrace.node_executor.enforcement.enforcement_worker import EnforcementWorker
from headrace.node_executor.enforcement.owners import LeaseOwners
from headrace.node_executor.executor import Executor
from headrace.node_executor.files.retention import RetentionPolicy
from headrace.node_executor.files.workspace import Workspace
from headrace.node_executor.launch.preparation import Bounds, Preparation
from headrace.node_executor.launch.secrets import references
from headrace.node_executor.monitoring.disk_usage import DiskUsageMonitor, Size
from headrace.node_executor.reporting.journal import Journal, Open
from headrace.node_executor.reporting.tracing import Silent
from headrace.node_executor.runtimes import CannotStart, End, Launch, RuntimeListener
from headrace.node_executor.system.accounts import Accounts
from tests.patience import PATIENCE

JOB = "acme.alice.01j9z3k4m5n6p7q8r9s0t1v2w3"
LEASE = f"{JOB}/1/0"
NAME = f"{JOB}.1.0"
LADDER = Ladder(cause="preempted", callback_grace=60_000_000, term_grace=30_000_000, preemptor="acme.bob.y")


class FakeRunning:
    def __init__(self, launch: Launch, listener: RuntimeListener, now: Callable[[], int]) -> None:
        self.pid, self.group = 4711, launch.group
        self.launch = launch
        self.listener = listener
        self.now = now
        self.signals: list[str] = []

    def exit(self, code: int | None, at: int | None = None) -> None:
        self.listener.ended(End(code, self.now() if at is None else at))

    def terminate(self) -> None:
        self.signals.append("term")

    def suspend(self) -> None:
        self.signals.append("stop")

    def resume(self) -> None:
        self.signals.append("cont")

    def kill(self) -> None:
        self.signals.append("kill")


class FakeRuntime:
    """Remembers what was started; `refuses` maps a command to why it cannot be, `left` names what a former executor started."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now
        self.started: list[FakeRunning] = []
        self.refuses: dict[str, CannotStart] = {}
        self.left: set[str] = set()
        self.forgotten: list[str] = []

    def start(self, launch: Launch, listener: RuntimeListener) -> None:
        if launch.command[0] in self.refuses:
            listener.failed(self.refuses[launch.command[0]])
            return
        self.started.append(FakeRunning(launch, listener, self.now))
        listener.started(self.started[-1], self.now())

    def adopt(self, launch: Launch, listener: RuntimeListener) -> bool:
        if launch.name not in self.left:
            return False
        self.started.append(FakeRunning(launch, listener, self.now))
        listener.started(self.started[-1], 7)
        return True

    def forget(self, name: str) -> None:
        self.forgotten.append(name)


class BusyFences(Enforcement):
    """Mechanisms of simulated devices, which are in use until the test lets go, and which may refuse."""

    def __init__(self, devices: Devices, leases: str) -> None:
        super().__init__(devices, Mechanisms(), LeaseOwners(leases), lambda _: None)
        self.held_by = ""
        self.refuses = ""

    def enter(self, case: EnforcementRequest) -> Entered:
        if self.refuses:
            raise CannotEnclose(self.refuses)
        return super().enter(case)

    def leave(self, lease: str) -> str:
        return self.held_by or super().leave(lease)


class Stage:
    """An executor with everything around it. `at` is its clock, in seconds."""

    def __init__(self, directory: Path, left: tuple[str, ...] = (), boot: str = "one") -> None:
        self.directory = directory
        self.at = 1_000.0
        self.facts: list[AnyFact] = []
        self.runtime = FakeRuntime(self.now)
        self.devices = simulated("2xH100-80GB")
        self.enforcement = BusyFences(self.devices, f"{directory}/leases")
        self.journal = Journal(str(directory / "journal"), boot=boot)
        self.stopping = False
        workspace = Workspace(str(directory))
        self.enclosing = EnforcementWorker(self.enforcement)
        equipment = ExecutorDependencies(
            workspace=workspace,
            preparation=Preparation(
                workspace, self.devices, {}, references(str(directory / "secrets"), {}), Bounds(Accounts("self"))
            ),
            devices=self.devices,
            enclosing=self.enclosing,
            runtime=self.runtime,
            journal=self.journal,
            tracing=Silent(),
            output_limit=1_000,
            is_shutting_down=lambda: self.stopping,
        )
        registration = NodeRegisteredV1(node="gpu01", devices=self.devices.inventory(), cpu=8000, memory=65536, at=0)
        self.executor = Executor(Node(registration), equipment, self.record_fact, self.now)
        self.runtime.left.update(left)
        for one in list(self.journal.open.values()):
            self.executor.adopt(one)
        if left:
            return
        self.executor.handle(v.Answered(self.now(), NodeAnswer(node="gpu01", through=1, last_record=0)))
        self.facts.clear()

    def record_fact(self, fact: AnyFact) -> None:
        self.facts.append(fact)
        self.journal.note_fact(fact)

    def now(self) -> int:
        return int(self.at * 1_000_000)

    def push(self, *starts: StartOrder, stops: tuple[StopOrder, ...] = ()) -> None:
        self.executor.handle(v.Pushed(self.now(), Orders(node="gpu01", number=1, through=9, starts=starts, stops=stops)))

    async def start(self, order: StartOrder) -> FakeRunning:
        self.push(order)
        await self.until(lambda: bool(self.runtime.started))
        return self.runtime.started[-1]

    def stop(self, ladder: Ladder = LADDER) -> None:
        self.push(stops=(StopOrder(lease=LEASE, ordered=8, ladder=ladder),))

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.001)

    def stated(self, kind: type[AnyFact]) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def rungs(self) -> list[tuple[str, str]]:
        return [(fact.rung, fact.result) for fact in self.stated(LeaseRungV1)]

    def journal_bytes(self) -> bytes:
        return self.path("journal").read_bytes()

    def path(self, *parts: str) -> Path:
        return self.directory.joinpath(*parts)


@pytest.fixture
async def stage(tmp_path):
    one = Stage(tmp_path)
    yield one
    one.journal.close()


async def test_an_order_becomes_a_process_and_its_end_a_fact(stage, make_order) -> None:
    running = await stage.start(make_order(env={"A": "1"}))
    assert running.launch.command == ("true",)
    assert running.launch.directory == f"{stage.directory}/leases/{NAME}/work"
    assert running.launch.env["A"] == "1"
    assert stage.journal.open == {LEASE: Open(make_order(env={"A": "1"}), started=True, boot="one")}
    stage.at += 2
    running.exit(3)
    ended = LeaseEndedV1(job=JOB, attempt=1, outcome="exited", exit_code=3, exited_at=stage.now(), at=stage.now())
    assert stage.facts == [LeaseStartedV1(job=JOB, attempt=1, at=stage.now() - 2_000_000, isolation="simulated"), ended]
    assert stage.journal.open[LEASE].ended
    assert stage.executor.running == 0
    await stage.until(lambda: not stage.path("leases", NAME).exists())
    assert stage.runtime.forgotten == [NAME]
    stage.journal.stored(len(stage.journal.unsent), 1)
    assert stage.journal.open == {}


SUSPEND = Ladder(cause="preempted", callback_grace=0, term_grace=30_000_000, then="suspend")


async def test_a_job_stands_still_off_its_devices_and_goes_on_as_if_it_had_never_been_told(stage, make_order) -> None:
    """R29."""
    order = make_order()
    running = await stage.start(order)
    stage.facts.clear()
    stage.push(stops=(StopOrder(lease=LEASE, ordered=7, ladder=SUSPEND),))
    await stage.until(lambda: bool(stage.stated(LeaseSuspendedV1)))
    assert running.signals == ["stop"]
    assert stage.stated(LeaseSuspendedV1) == [LeaseSuspendedV1(job=JOB, attempt=1, at=stage.now(), how="sigstop")]
    notices = [path for path in stage.path("leases", NAME).rglob("*") if path.name.startswith("preempt")]
    assert len(notices) == 1
    stage.push(order)
    await stage.until(lambda: bool(stage.stated(LeaseResumedV1)))
    assert running.signals == ["stop", "cont"]
    assert stage.stated(LeaseResumedV1) == [LeaseResumedV1(job=JOB, attempt=1, at=stage.now())]
    assert not notices[0].exists()


async def test_on_devices_that_a_job_cannot_leave_it_is_not_suspended(stage, make_order) -> None:
    """R29: the ladder goes on."""
    stage.devices.suspension = ""
    running = await stage.start(make_order())
    stage.push(stops=(StopOrder(lease=LEASE, ordered=7, ladder=SUSPEND),))
    await stage.until(lambda: running.signals == ["term"])
    assert [fact.result for fact in stage.stated(LeaseRungV1)] == ["told", "this node cannot suspend"]


async def test_many_orders_at_once_are_started_in_order_over_several_turns(stage, make_order) -> None:
    orders = [make_order(attempt=number, devices=(), command=(str(number),)) for number in range(1, 11)]
    stage.push(*orders)
    assert stage.runtime.started == []
    await stage.until(lambda: len(stage.runtime.started) == 10)
    assert [running.launch.command[0] for running in stage.runtime.started] == [str(number) for number in range(1, 11)]


async def test_an_order_that_is_taken_back_in_time_never_starts(stage, make_order) -> None:
    stage.push(make_order())
    stage.stop()
    assert [fact.outcome for fact in stage.stated(LeaseEndedV1)] == ["never_started"]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert stage.runtime.started == []


@pytest.mark.parametrize(
    ("fault", "outcome", "code"),
    [
        (CannotStart("command not found: nope", 127), "exited", 127),
        (CannotStart("the node cannot start a process"), "refused", None),
    ],
)
async def test_what_cannot_be_started_ends_with_the_reason(stage, make_order, fault, outcome, code) -> None:
    stage.runtime.refuses["nope"] = fault
    stage.push(make_order(command=("nope",)))
    await stage.until(lambda: bool(stage.facts))
    assert [(fact.outcome, fact.exit_code, fact.message) for fact in stage.stated(LeaseEndedV1)] == [
        (outcome, code, fault.message)
    ]
    assert stage.path("logs", f"{NAME}.log").read_text() == f"[headrace] {fault.message}\n"


async def test_an_order_that_cannot_be_prepared_is_refused(stage, make_order) -> None:
    stage.push(make_order(secret_env=("../x",)))
    await stage.until(lambda: bool(stage.facts))
    assert [(fact.outcome, fact.exit_code) for fact in stage.stated(LeaseEndedV1)] == [("exited", 126)]


async def test_a_journal_that_cannot_be_written_refuses_the_start(stage, make_order, monkeypatch) -> None:
    def full(_order: StartOrder) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stage.journal, "began", full)
    stage.push(make_order())
    await stage.until(lambda: bool(stage.facts))
    assert [(fact.outcome, fact.message) for fact in stage.stated(LeaseEndedV1)] == [
        ("refused", "the node cannot write its journal: No space left on device")
    ]
    assert stage.runtime.started == []


async def test_a_job_that_has_to_yield_is_told_and_its_callback_runs_beside_it(stage, make_order) -> None:
    job = await stage.start(make_order(on_abort=("save", "now")))
    stage.stop()
    notice = json.loads(stage.path("leases", NAME, "preempt.json").read_text())
    assert notice == {"reason": "preempted", "preemptor": "acme.bob.y", "deadline": 1060}
    callback = stage.runtime.started[1]
    assert callback.launch.command == ("save", "now")
    assert callback.launch.directory == job.launch.directory
    assert callback.launch.env == job.launch.env | {
        "HEADRACE_PREEMPT_FILE": str(stage.path("leases", NAME, "preempt.json")),
        "HEADRACE_PREEMPT_DEADLINE": "1060",
        "HEADRACE_JOB_PID": "4711",
    }
    callback.exit(0)
    assert job.signals == ["term"]
    job.exit(143)
    assert stage.rungs() == [("told", "told"), ("callback", "exit 0"), ("term", "left"), ("verify", "free")]
    assert [(fact.outcome, fact.exit_code, fact.stopping) for fact in stage.stated(LeaseEndedV1)] == [("exited", 143, True)]


async def test_a_callback_that_cannot_be_started_is_a_rung_like_any_other(stage, make_order) -> None:
    job = await stage.start(make_order(on_abort=("nope",)))
    stage.runtime.refuses["nope"] = CannotStart("command not found: nope", 127)
    stage.stop()
    assert stage.rungs() == [("told", "told"), ("callback", "failed: could not start: command not found: nope")]
    assert job.signals == ["term"]
    assert stage.path("logs", f"{NAME}.log").read_text() == (
        "[headrace] the abort callback failed: could not start: command not found: nope\n"
    )


@pytest.mark.parametrize(
    ("code", "result"),
    [(3, "failed: exit 3"), (None, "failed: the process that kept it was killed")],
    ids=["by itself", "lost"],
)
async def test_a_callback_that_fails_says_so_with_its_code(stage, make_order, code, result) -> None:
    job = await stage.start(make_order(on_abort=("save",)))
    stage.stop()
    stage.runtime.started[1].exit(code)
    assert stage.rungs() == [("told", "told"), ("callback", result)]
    assert job.signals == ["term"]
    assert stage.path("logs", f"{NAME}.log").read_text() == f"[headrace] the abort callback {result}\n"


async def test_a_job_that_polls_is_given_the_grace_and_told_so(stage, make_order) -> None:
    job = await stage.start(make_order())
    stage.path("leases", NAME, "hook").touch()
    stage.stop()
    assert json.loads(stage.path("leases", NAME, "preempt.json").read_text())["deadline"] == 1060
    assert job.signals == []
    stage.path("leases", NAME, "finished").touch()
    job.exit(0)
    assert stage.rungs() == [("told", "told"), ("callback", "hook: left"), ("verify", "free")]
    assert [fact.finished for fact in stage.stated(LeaseEndedV1)] == [True]


async def test_a_job_that_only_sigterm_reaches_is_told_the_grace_of_sigterm(stage, make_order) -> None:
    await stage.start(make_order())
    stage.stop()
    assert json.loads(stage.path("leases", NAME, "preempt.json").read_text())["deadline"] == 1030


async def test_graces_end_by_the_clock_and_the_last_rung_kills(stage, make_order) -> None:
    job = await stage.start(make_order(on_abort=("save",)))
    stage.stop(Ladder(cause="cancelled", callback_grace=2_000, term_grace=2_000))
    await stage.until(lambda: job.signals == ["term", "kill"])
    assert stage.runtime.started[1].signals == ["kill"]
    job.exit(137)
    assert [fact.outcome for fact in stage.stated(LeaseEndedV1)] == ["killed"]


async def test_a_preempt_file_that_cannot_be_written_does_not_stop_the_ladder(stage, make_order) -> None:
    job = await stage.start(make_order())
    stage.path("leases", NAME, "preempt.json.new").mkdir()
    stage.stop()
    assert stage.rungs() == [("told", "the preempt file could not be written: Is a directory")]
    assert job.signals == ["term"]


async def test_a_lease_ends_only_when_its_devices_are_free(stage, make_order, monkeypatch) -> None:
    job = await stage.start(make_order())
    stage.enforcement.held_by = "pid 77"
    job.exit(0)
    assert stage.stated(LeaseEndedV1) == []
    stage.enforcement.held_by = ""
    await stage.until(lambda: bool(stage.stated(LeaseEndedV1)))


async def test_checkpoints_are_stated_while_it_runs_at_the_callbacks_end_and_at_its_own(stage, make_order) -> None:
    job = await stage.start(make_order(on_abort=("save",)))
    saved = stage.path("checkpoints", f"{JOB}.1")

    def steps() -> list[str]:
        return [Path(fact.uri).name for fact in stage.stated(CheckpointRegisteredV1)]

    await stage.executor.poll_checkpoints()
    assert steps() == []
    (saved / "1.pt").touch()
    await stage.executor.poll_checkpoints()
    await stage.executor.poll_checkpoints()
    assert steps() == ["1.pt"]
    stage.stop()
    (saved / "2.pt").touch()
    stage.runtime.started[1].exit(0)
    assert steps() == ["1.pt", "2.pt"]
    (saved / "3.pt").touch()
    job.exit(0)
    assert steps() == ["1.pt", "2.pt", "3.pt"]
    assert isinstance(stage.facts[-1], LeaseEndedV1)


async def test_a_registered_checkpoint_is_looked_for_in_a_thread_before_the_end_is_stated(stage, make_order) -> None:
    job = await stage.start(make_order())
    saved = stage.path("leases", NAME, "work", "mine.pt")
    saved.touch()
    line = json.dumps({"uri": str(saved), "step": 7})
    stage.path("leases", NAME, "checkpoints").write_text(line + "\n")
    job.exit(0)
    assert stage.stated(LeaseEndedV1) == []
    await stage.until(lambda: bool(stage.stated(LeaseEndedV1)))
    assert [(fact.uri, fact.step) for fact in stage.stated(CheckpointRegisteredV1)] == [(str(saved), 7)]


async def test_a_checkpoint_that_is_not_there_is_a_line_in_the_jobs_output(stage, make_order) -> None:
    await stage.start(make_order())
    stage.path("leases", NAME, "checkpoints").write_text('{"uri": "s3://bucket/x"}\n')
    await stage.executor.poll_checkpoints()
    await stage.executor.poll_checkpoints()
    assert stage.executor.read_log(LogsRequest(job=JOB, attempt=1)) == LogsAnswer(
        data="[headrace] checkpoint s3://bucket/x was not found on this node and does not count\n", next_offset=82
    )


async def test_a_halt_ends_everything_and_says_when_it_is_done(stage, make_order) -> None:
    job = await stage.start(make_order())
    stage.executor.halt(10)
    assert job.signals == ["term"]
    assert not stage.executor.finished.is_set()
    job.exit(143)
    assert stage.executor.finished.is_set()
    assert [fact.outcome for fact in stage.stated(LeaseEndedV1)] == ["lost"]


async def test_trouble_with_one_lease_does_not_reach_the_others(stage, make_order, monkeypatch) -> None:
    job = await stage.start(make_order(devices=()))
    monkeypatch.setattr(stage.enforcement, "started", lambda *_: 1 / 0)
    stage.push(make_order(attempt=2))
    job.exit(0)
    assert [fact.attempt for fact in stage.stated(LeaseEndedV1)] == [1]


async def test_a_job_that_cannot_be_enclosed_is_refused_and_the_next_try_is_not(stage, make_order) -> None:  # R36
    stage.enforcement.refuses = "its slice cannot be made: Insufficient Resources"
    stage.push(make_order())
    await asyncio.sleep(0)
    (ended,) = stage.stated(LeaseEndedV1)
    assert (ended.outcome, ended.message) == ("refused", stage.enforcement.refuses)
    stage.enforcement.refuses = ""
    await stage.start(make_order(attempt=2))
    assert [fact.isolation for fact in stage.stated(LeaseStartedV1)] == ["simulated"]


async def test_what_a_fence_says_goes_into_the_job_and_its_callback(stage, make_order, monkeypatch) -> None:
    entered = Entered("kernel", {"LD_PRELOAD": "cap.so"}, "/sys/fs/cgroup/x", ("/bin/wall", "--"))
    monkeypatch.setattr(stage.enforcement, "enter", lambda _: entered)
    job = await stage.start(make_order(on_abort=("save",)))
    stage.stop()
    callback = stage.runtime.started[-1]
    for launch in (job.launch, callback.launch):
        assert (launch.env["LD_PRELOAD"], launch.within, launch.prefix) == ("cap.so", entered.group, entered.prefix)
    assert [fact.isolation for fact in stage.stated(LeaseStartedV1)] == ["kernel"]


async def test_a_stop_that_comes_while_a_job_is_being_enclosed_finds_it_never_started(stage, make_order, monkeypatch) -> None:
    waiting = []
    monkeypatch.setattr(stage.enclosing, "enter", lambda case, entered, refused: waiting.append(entered))
    stage.push(make_order())
    await asyncio.sleep(0)
    stage.stop()
    assert (stage.runtime.started, stage.stated(LeaseEndedV1)) == ([], [])
    waiting[0](Entered("hardware", {}))
    assert [fact.outcome for fact in stage.stated(LeaseEndedV1)] == ["never_started"]
    assert stage.runtime.started == []


async def test_an_attempt_whose_checkpoint_is_on_another_node_starts_without_it_and_its_output_says_so(
    stage, make_order
) -> None:
    """R29."""
    running = await stage.start(make_order(resume_from="/elsewhere/1.pt"))
    assert running.launch.env["HEADRACE_RESUME_FROM"] == ""
    why = "so the job starts without it: No such file or directory"
    stated = f"[headrace] the checkpoint /elsewhere/1.pt cannot be read on this node, {why}\n"
    assert stage.path("logs", f"{NAME}.log").read_text() == stated


async def test_an_attempt_whose_checkpoint_is_here_is_told_it(stage, make_order) -> None:
    """R29."""
    here = stage.path("here.pt")
    here.touch()
    running = await stage.start(make_order(resume_from=str(here)))
    assert running.launch.env["HEADRACE_RESUME_FROM"] == str(here)


async def test_an_attempt_that_is_stopped_while_its_checkpoint_is_looked_for_is_not_started(
    stage, make_order, monkeypatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    monkeypatch.setattr("headrace.node_executor.leases.resume_check.read_as", lambda *_: begun.set() or goes_on.wait())
    stage.push(make_order(resume_from="/elsewhere/1.pt"))
    await stage.until(begun.is_set)
    stage.stop()
    goes_on.set()
    await stage.until(lambda: bool(stage.stated(LeaseEndedV1)))
    assert [fact.outcome for fact in stage.stated(LeaseEndedV1)] == ["never_started"]
    assert stage.runtime.started == []


async def test_pruning_spares_what_runs(stage, make_order) -> None:
    await stage.start(make_order())
    stage.path("logs", f"{NAME}.log").touch()
    stage.path("logs", "old.log").touch()
    stage.at = 10**10
    await stage.executor.prune(RetentionPolicy(1, 10**9))
    assert stage.path("logs", f"{NAME}.log").exists()
    assert not stage.path("logs", "old.log").exists()


async def test_the_end_of_the_process_does_not_wait_for_pruning(stage, monkeypatch) -> None:
    waited_for = []
    monkeypatch.setattr(
        "headrace.node_executor.executor.prune", lambda *_: waited_for.append(not threading.current_thread().daemon) or 0
    )
    await stage.executor.prune(RetentionPolicy(1, 10**9))
    assert waited_for == [False]


def again(stage: Stage, *left: str, boot: str = "one") -> Stage:
    """The next executor on the same directory; what is named in `left` was started by the one before."""
    stage.journal.close()
    return Stage(stage.directory, left, boot)


async def test_the_next_executor_goes_on_with_what_the_last_one_started(stage, make_order) -> None:
    await stage.start(make_order())
    later = again(stage, NAME)
    assert (later.facts, later.executor.running) == ([], 1)
    later.runtime.started[0].exit(3, at=999)
    assert [(fact.exit_code, fact.exited_at, fact.at) for fact in later.stated(LeaseEndedV1)] == [(3, 999, later.now())]
    later.journal.close()


@pytest.mark.parametrize(
    ("boot", "code", "expected"),
    [
        ("one", 143, ("exited", 143, "")),
        ("two", 143, ("lost", None, "the machine was restarted")),
        ("two", 3, ("exited", 3, "")),
        ("two", None, ("lost", None, "the machine was restarted")),
    ],
)
async def test_what_ended_with_the_machine_is_lost_and_what_ended_by_itself_is_not(
    stage, make_order, boot: str, code: int | None, expected: tuple[str, int | None, str]
) -> None:
    await stage.start(make_order())
    later = again(stage, NAME, boot=boot)
    later.runtime.started[0].exit(code, at=999)
    await later.until(lambda: bool(later.stated(LeaseEndedV1)))
    assert [(fact.outcome, fact.exit_code, fact.message) for fact in later.stated(LeaseEndedV1)] == [expected]
    later.journal.close()


async def test_a_job_that_sigterm_ends_while_the_machine_is_being_shut_down_is_lost(stage, make_order) -> None:
    job = await stage.start(make_order())
    stage.stopping = True
    job.exit(143)
    await stage.until(lambda: bool(stage.stated(LeaseEndedV1)))
    [ended] = stage.stated(LeaseEndedV1)
    assert (ended.outcome, ended.exit_code, ended.message) == ("lost", None, "the machine was being shut down")


async def test_a_start_that_was_not_stated_is_stated_by_the_next_executor(stage, make_order) -> None:
    stage.journal.began(make_order())
    later = again(stage, NAME)
    assert later.facts == [LeaseStartedV1(job=JOB, attempt=1, at=7, isolation="simulated")]
    later.journal.close()


async def test_a_node_that_was_down_when_its_job_was_given_up_forgets_what_it_ran(stage, make_order) -> None:
    """Erasing a person is refused while a job of theirs runs; here the ledger has it lost, and then the node returns."""
    await stage.start(make_order(env={"KEY": "text-env"}, command=("train", "text-command")))
    later = again(stage, NAME)
    assert later.journal_bytes().count(b"text-") == 2
    later.executor.handle(v.Answered(later.now(), NodeAnswer(node="gpu01", through=9, last_record=0)))
    await later.until(lambda: "term" in later.runtime.started[0].signals)
    later.runtime.started[0].exit(143)
    assert [fact.outcome for fact in later.stated(LeaseEndedV1)] == ["exited"]
    later.journal.clean()
    assert b"text-" not in later.journal_bytes()
    later.journal.close()


async def test_what_was_begun_and_never_started_is_left_to_the_next_order(stage, make_order) -> None:
    stage.journal.began(make_order())
    later = again(stage, "nothing")
    assert (later.facts, later.executor.running, later.journal.open) == ([], 0, {})
    later.journal.close()


async def test_what_ran_and_left_no_trace_is_lost(stage, make_order) -> None:
    await stage.start(make_order())
    later = again(stage, "nothing")
    assert [(fact.outcome, fact.exit_code) for fact in later.stated(LeaseEndedV1)] == [("lost", None)]
    later.journal.close()


async def test_the_next_executor_goes_on_with_the_ladder(stage, make_order) -> None:
    """R28: the grace goes on where it was, and a callback that runs is not run again."""
    await stage.start(make_order(on_abort=("save",)))
    stage.stop()
    stage.at += 10
    later = again(stage, NAME, f"{NAME}.abort")
    job, callback = later.runtime.started
    assert later.rungs() == [("told", "the executor was restarted")]
    callback.exit(0)
    assert job.signals == ["term"]
    later.journal.close()


async def test_a_suspended_job_is_suspended_for_the_next_executor_too(stage, make_order) -> None:
    """R29."""
    order = make_order()
    await stage.start(order)
    stage.push(stops=(StopOrder(lease=LEASE, ordered=7, ladder=SUSPEND),))
    await stage.until(lambda: bool(stage.stated(LeaseSuspendedV1)))
    later = again(stage, NAME)
    later.executor.handle(v.Answered(later.now(), NodeAnswer(node="gpu01", through=9, last_record=0, starts=(order,))))
    await later.until(lambda: bool(later.stated(LeaseResumedV1)))
    assert later.runtime.started[0].signals == ["cont"]
    later.journal.close()


async def test_a_working_directory_that_has_grown_too_large_ends_the_job(stage, make_order) -> None:
    job = await stage.start(make_order())
    stage.path("leases", NAME, "work", "big").write_bytes(b"x" * 3_000_000)
    for most, signals in ((4_000_000, []), (2_000_000, ["kill"])):
        measuring = DiskUsageMonitor(stage.executor.handle, lambda: stage.executor.held, stage.now, Size(most, 1_000))
        await measuring.measure()
        assert job.signals == signals
    job.exit(137)
    [ended] = stage.stated(LeaseEndedV1)
    assert (ended.outcome, ended.exit_code, ended.message) == (
        "exited",
        137,
        "its working directory took 2 MiB; 1 MiB is the most",
    )
