"""R29: an attempt is told a checkpoint only where it can read it."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from headrace.contracts.documents.model import Mount
from headrace.contracts.values.account_numbers import FIRST
from headrace.node_executor.files.inspection import FileInspector
from headrace.node_executor.files.workspace import Workspace
from headrace.node_executor.launch.preparation import Prepared
from headrace.node_executor.leases import resume_check
from headrace.node_executor.leases.resume_check import ResumeCheck
from headrace.node_executor.leases.running_lease import RunningLease
from headrace.node_executor.runtimes import Container
from headrace.node_executor.runtimes.job_log import Output
from headrace.node_executor.system.accounts import UserAccount
from tests.patience import PATIENCE
from tests.unit.node_executor.conftest import JOB, order

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root looks at files as others")


def put(path: Path) -> str:
    """A file, in directories that are made for it."""
    path.parent.mkdir(parents=True)
    path.touch()
    return str(path)


class Stage:
    """The second attempt of a job, which is to resume from what `resume_from` says."""

    def __init__(self, directory: Path, within: float = PATIENCE) -> None:
        self.directory = directory
        self.workspace = Workspace(str(directory))
        self.resuming = ResumeCheck(FileInspector(within))

    def hold(
        self, resume_from: str, image: str = "", account: UserAccount | None = None, mounts: tuple[Mount, ...] = ()
    ) -> RunningLease:
        second = order(attempt=2, resume_from=resume_from, image=image, mounts=mounts)
        paths = self.workspace.paths(second)
        container = Container(image, (paths.control, paths.checkpoints), mounts=mounts) if image else None
        env = {"HEADRACE_RESUME_FROM": resume_from}
        return RunningLease(second, Prepared(paths, env, "/", account, None, container), Output(paths.log, 10_000))

    def saved(self, attempt: int = 1) -> str:
        """A checkpoint of an earlier attempt."""
        return put(Path(self.workspace.checkpoints, f"{JOB}.{attempt}", "1.pt"))

    async def complaint_after_check(self, held: RunningLease) -> str:
        over = asyncio.Event()
        self.resuming.check_then(held, over.set)
        async with asyncio.timeout(PATIENCE):
            await over.wait()
        return held.prepared.env["HEADRACE_RESUME_FROM"]

    def output(self, held: RunningLease) -> str:
        return Path(held.output.path).read_text() if os.path.exists(held.output.path) else ""


@pytest.fixture
async def stage(tmp_path) -> Stage:
    return Stage(tmp_path)


@pytest.mark.parametrize("form", ["{}", "file://{}"])
async def test_a_checkpoint_that_is_here_is_told_as_it_is_named(stage, form) -> None:
    uri = form.format(stage.saved())
    held = stage.hold(uri)
    assert (await stage.complaint_after_check(held), stage.output(held)) == (uri, "")


async def test_so_is_a_directory(stage) -> None:
    uri = os.path.dirname(stage.saved())
    assert await stage.complaint_after_check(stage.hold(uri)) == uri


@pytest.mark.parametrize("uri", ["s3://bucket/1.pt", "https://host/1.pt", ""])
async def test_what_is_not_a_file_is_told_at_once_and_not_looked_at(stage, uri) -> None:
    held, over = stage.hold(uri), []
    stage.resuming.check_then(held, lambda: over.append(held.prepared.env["HEADRACE_RESUME_FROM"]))
    assert over == [uri]


@pytest.mark.parametrize("kind", ["absent", "fifo", "device"])
async def test_a_checkpoint_that_is_not_here_is_not_told_and_the_output_says_so(stage, kind) -> None:
    uri = "/dev/null" if kind == "device" else f"{stage.directory}/elsewhere.pt"
    if kind == "fifo":
        os.mkfifo(uri)
    held = stage.hold(uri)
    why = "No such file or directory" if kind == "absent" else "it is neither a file nor a directory"
    assert await stage.complaint_after_check(held) == ""
    assert stage.output(held) == (
        f"[headrace] the checkpoint {uri} cannot be read on this node, so the job starts without it: {why}\n"
    )


@only_root
async def test_it_is_looked_at_with_the_rights_of_the_jobs_account(stage) -> None:
    uri = stage.saved()
    os.chmod(uri, 0o600)
    held = stage.hold(uri, account=UserAccount(FIRST + 1, FIRST + 1, "alice"))
    assert await stage.complaint_after_check(held) == ""
    assert "Permission denied" in stage.output(held)


async def test_where_the_disk_does_not_answer_it_starts_without_it_when_the_time_is_over(tmp_path, monkeypatch) -> None:
    stage, answers = Stage(tmp_path, within=0.5), threading.Event()
    monkeypatch.setattr(resume_check, "read_as", lambda *_: answers.wait())
    held = stage.hold(stage.saved())
    try:
        assert await stage.complaint_after_check(held) == ""
        assert "it could not be looked at within 0.5 s" in stage.output(held)
    finally:
        answers.set()


@pytest.mark.parametrize("where", ["checkpoints", "leases"])
async def test_a_container_is_given_the_directory_of_the_earlier_attempt(stage, where) -> None:
    top = stage.directory / where / (f"{JOB}.1" if where == "checkpoints" else f"{JOB}.1.0")
    uri = put(top / "below" / "1.pt")
    held = stage.hold(uri, image="trainer:1")
    before = held.prepared.container
    assert await stage.complaint_after_check(held) == uri
    assert before is not None
    assert held.prepared.container == before._replace(binds=(*before.binds, str(top)))


async def test_a_container_finds_a_checkpoint_in_what_is_mounted_at_the_same_path_and_no_other(stage) -> None:
    scratch, other = stage.directory / "scratch", stage.directory / "other"
    for folder in (scratch, other):
        put(folder / "1.pt")
    mounts = (Mount(source=str(scratch), target=str(scratch)), Mount(source=str(other), target="/data"))
    held = stage.hold(f"{scratch}/1.pt", image="trainer:1", mounts=mounts)
    assert await stage.complaint_after_check(held) == f"{scratch}/1.pt"
    held = stage.hold(f"{other}/1.pt", image="trainer:1", mounts=mounts)
    assert await stage.complaint_after_check(held) == ""
    assert "its container has no directory in which that is" in stage.output(held)


async def test_nothing_of_another_job_is_given_to_a_container(stage) -> None:
    held = stage.hold(put(Path(stage.workspace.checkpoints, f"{JOB}x.1", "1.pt")), image="trainer:1")
    before = held.prepared.container
    assert (await stage.complaint_after_check(held), held.prepared.container) == ("", before)
