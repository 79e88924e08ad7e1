"""`headrace submit`: what is typed becomes submissions, and what becomes of them is told."""

from __future__ import annotations

import json
import signal

import pytest

from headrace.cli.jobs import follow
from headrace.cli.jobs import submit as submit_module
from headrace.client import Refused, SubmittedJob, Unreachable
from headrace.contracts.messages.queries import AttemptView, JobView, LogsAnswer
from headrace.contracts.messages.submissions import After
from headrace.contracts.messages.trials import TrialAnswer, Verdict

ID, OTHER = "01jd3v8k5w2m4x6z8b0c2e4g6h", "01jd3v8k5w2m4x6z8b0c2e4g6j"
JOB = SubmittedJob(ID, f"acme.alice.{ID}")
TWO = (JOB, SubmittedJob(OTHER, f"acme.alice.{OTHER}"))


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(follow, "POLL_EVERY", 0.0)


def view(state, job=JOB, **more):
    return JobView(id=job.id, job=job.key, tenant="acme", user="alice", name="", queue="ai-dev/half", state=state, **more)


def submitted(ran):
    """(queue, submissions) of what was submitted."""
    ((_, (queue, submissions), _),) = [call for call in ran.calls if call[0] == "submit_many"]
    return queue, submissions


def test_a_submit_prints_the_id_and_is_done_when_it_was_admitted(headrace):
    ran = headrace("submit --queue ai-dev/half -- python train.py --epochs 3", submit_many=(JOB,), judged=view("pending"))
    assert ran[:3] == (0, f"{ID}\n", "")
    queue, (submission,) = submitted(ran)
    assert (queue, submission.command) == ("ai-dev/half", ("python", "train.py", "--epochs", "3"))
    assert ran.calls[1] == ("judged", (JOB,), {})


def test_a_judgement_that_does_not_come_is_waited_for_a_moment_only(headrace):
    assert headrace("submit --queue a/b -- true", submit_many=(JOB,), judged=None)[:3] == (0, f"{ID}\n", "")


def test_a_rejection_is_told_and_fails(headrace):
    rejected = view("rejected", reason="NOT_ALLOWED", message="alice is not in group rnd")
    ran = headrace("submit --queue a/b -- true", submit_many=(JOB,), judged=rejected)
    assert ran[:3] == (1, f"{ID}\n", f"headrace: {ID} was rejected: NOT_ALLOWED: alice is not in group rnd\n")


def test_a_rejection_for_its_queue_names_the_tenant_that_was_asked(headrace):
    rejected = view("rejected", reason="UNKNOWN_QUEUE", message="there is no queue a/b; you have none")
    ran = headrace("submit --queue a/b -- true", submit_many=(JOB,), judged=rejected)
    where = "(in tenant acme; --tenant names another one)"
    assert ran.err == f"headrace: {ID} was rejected: UNKNOWN_QUEUE: there is no queue a/b; you have none {where}\n"


def test_a_dry_run_submits_nothing_and_shows_verdicts_and_costs(headrace):
    costs = ("1 new node of pool cloud by offer spot, at 1.00 an hour each: 0.20 at least",)
    verdicts = (Verdict(job=ID), Verdict(job=OTHER, reason="TOO_FAST", message="slower"))
    ran = headrace("submit --queue a/b --count 2 --dry-run -- true", judge=TrialAnswer(verdicts=verdicts, costs=costs))
    assert ran[:2] == (1, f"1 would be admitted\n1 would be rejected: TOO_FAST: slower\n{costs[0]}\n")
    assert [call[0] for call in ran.calls] == ["judge"]
    ran = headrace("submit --queue a/b --dry-run --json -- true", judge=TrialAnswer(verdicts=verdicts[:1], costs=costs))
    assert (ran.code, json.loads(ran.out)["costs"]) == (0, list(costs))
    shares = "20GiB of GPU memory: 0.254 of H100-80GB"
    of_memory = TrialAnswer(verdicts=(Verdict(job=ID, message=shares), Verdict(job=OTHER, message=shares)))
    assert headrace("submit --queue a/b --count 2 --dry-run -- true", judge=of_memory).out == f"2 would be admitted\n{shares}\n"
    assert "--dry-run judges up to 1,000 jobs" in headrace("submit --queue a/b --count 1001 --dry-run -- true").err


def test_of_several_the_last_is_told_and_where_the_others_are(headrace):
    ran = headrace(
        "submit --queue a/b --count 2 -- true", submit_many=TWO, judged=view("rejected", reason="TOO_FAST", message="slower")
    )
    assert ran.err.splitlines() == [
        f"headrace: {ID} was rejected: TOO_FAST: slower",
        "headrace: that is the last of 2; `headrace jobs` shows the others",
    ]


def test_bytes_that_are_not_utf_8_are_told_by_their_field(headrace, monkeypatch):
    monkeypatch.setenv("CAFE", "caf\udce9")
    why = "this is not UTF-8; write it as UTF-8, or keep such bytes in a file that the job reads"
    for options, field in (
        (["--name", "caf\udce9"], "name"),
        (["--env", "CAFE"], "env.CAFE"),
        (["--label", "a=\udce9"], "labels.a"),
    ):
        ran = headrace(["submit", "--queue", "a/b", *options, "--", "true"])
        assert ran[:3] == (1, "", f"headrace: {field}: {why}\n")
    assert headrace(["submit", "--queue", "a/b", "--", "caf\udce9"])[:3] == (1, "", f"headrace: command: {why}\n")


def test_an_id_that_is_given_makes_a_submit_one_that_may_be_repeated(headrace):
    _, (submission,) = submitted(headrace(f"submit --queue a/b --id {OTHER} -- true", submit_many=(JOB,), judged=None))
    assert submission.id == OTHER
    ran = headrace(f"submit --queue a/b --id {OTHER} --count 2 -- true")
    assert ran[:3] == (1, "", "headrace: --id names one job: leave out --count, or submit them one by one\n")


def test_an_id_that_is_another_jobs_is_told_and_fails(headrace):
    reused = Refused("ID_REUSED", "id: this id already names a job with other content")
    ran = headrace(f"submit --queue a/b --id {ID} -- true", submit_many=(JOB,), judged=reused)
    assert (ran.code, ran.err) == (1, "headrace: id: this id already names a job with other content\n")


def test_every_flag_is_a_field_of_the_submission(headrace, monkeypatch, tmp_path):
    monkeypatch.setenv("SEED", "7")
    monkeypatch.chdir(tmp_path)
    line = [
        *("submit", "--queue", "ai-dev/half", "--name", "train", "--env", "A=b=c", "--env", "SEED", "--secret-env", "TOKEN"),
        *("--image", "registry/image", "--workdir", "work", "--non-preemptible", "--priority", "5", "--time-limit", "8h"),
        *("--after", f"{OTHER}:any", "--on-abort", "python save.py 'a b'", "--retries", "2", "--request", "gpu=0.25"),
        *("--label", "team=vision", "--", "sh", "-c", "echo -- x"),
    ]
    _, (submission,) = submitted(headrace(line, submit_many=(JOB,), judged=None))
    assert (submission.name, submission.env, submission.secret_env, submission.image) == (
        "train",
        {"A": "b=c", "SEED": "7"},
        ("TOKEN",),
        "registry/image",
    )
    assert (submission.workdir, submission.preemptible, submission.priority) == (str(tmp_path / "work"), False, 5)
    assert (submission.time_limit, submission.after, submission.retries) == ("8h", (After(job=OTHER, when="any"),), 2)
    assert (submission.on_abort, submission.request, submission.labels) == (
        ("python", "save.py", "a b"),
        {"gpu": "0.25"},
        {"team": "vision"},
    )
    assert submission.command == ("sh", "-c", "echo -- x")


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("python save.py 'a b'", ("python", "save.py", "a b")),
        ("a > f; b", ("sh", "-c", "a > f; b")),
        ("cp *.pt /save", ("sh", "-c", "cp *.pt /save")),
        ('save "$HEADRACE_CHECKPOINT_DIR"', ("sh", "-c", 'save "$HEADRACE_CHECKPOINT_DIR"')),
        ("STEP=1 save", ("sh", "-c", "STEP=1 save")),
        ("save --step=1", ("save", "--step=1")),
    ],
)
def test_a_callback_with_shell_syntax_in_it_is_run_by_a_shell(headrace, command, words):
    _, (submission,) = submitted(
        headrace(["submit", "--queue", "a/b", "--on-abort", command, "--", "true"], submit_many=(JOB,), judged=None)
    )
    assert submission.on_abort == words


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("--count 100000000", "argument --count: invalid number '100000000': write a whole number from 1 to 1000000"),
        (
            "--priority 99999999999999999999999",
            "argument --priority: invalid number '99999999999999999999999': write a whole number",
        ),
        (
            "--priority=-1000001",
            "argument --priority: invalid number '-1000001': write a whole number from -1000000 to 1000000",
        ),
        ("--retries 1001", "argument --retries: invalid number '1001': write a whole number from 0 to 1000"),
    ],
)
def test_numbers_out_of_bounds_are_one_line(headrace, option, complaint):
    ran = headrace(f"submit --queue a/b {option} -- true")
    assert (ran.code, ran.out, ran.calls, ran.err.count("\n")) == (2, "", [], 1)
    assert ran.err.startswith(f"headrace submit: {complaint}")


def submit_some(monkeypatch, at_once):
    """What each request holds, and an answer to it."""
    monkeypatch.setattr(submit_module, "AT_ONCE", at_once)
    sizes = []

    def answer(_, submissions):
        sizes.append(len(submissions))
        return tuple(SubmittedJob(job.id, f"acme.alice.{job.id}") for job in submissions)

    return sizes, answer


def test_many_jobs_are_made_and_sent_a_part_at_a_time(headrace, monkeypatch):
    sizes, answer = submit_some(monkeypatch, 2)
    ran = headrace("submit --queue a/b --name r --count 5 -- true", submit_many=answer, judged=None)
    assert (ran.code, ran.err, sizes, len(set(ran.out.split()))) == (0, "", [2, 2, 1], 5)
    assert [job.name for call in ran.calls if call[0] == "submit_many" for job in call[1][1]] == [f"r-{n}" for n in range(1, 6)]


def test_an_error_in_the_middle_says_how_many_are_submitted(headrace, monkeypatch):
    submit_some(monkeypatch, 2)
    ran = headrace("submit --queue a/b --count 4 -- true", submit_many=[TWO, Refused("DISK_FULL", "no room")])
    assert ran[:3] == (1, f"{ID}\n{OTHER}\n", "headrace: no room; 2 of 4 jobs are submitted\n")


@pytest.fixture
def interruptible():
    """Interrupts reach this process, also where it was started in the background, whose shell ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_in_the_middle_says_how_many_are_submitted_and_how_to_end_them(headrace, monkeypatch):
    submit_some(monkeypatch, 2)

    def interrupted(*_):
        signal.raise_signal(signal.SIGINT)
        return TWO

    ran = headrace("submit --queue a/b --name r --count 6 -- true", submit_many=[interrupted, TWO])
    message = (
        "headrace: interrupted: 2 of 6 jobs are known to be submitted, and up to 2 more may be; "
        "`headrace cancel --name 'r-*'` ends them"
    )
    assert (ran.code, ran.out, ran.err) == (130, f"{ID}\n{OTHER}\n", f"{message}\n")


def test_a_dependency_may_be_named(headrace):
    train = view("running", job=JOB)
    ran = headrace("submit --queue a/b --after train:any --after last -- true", jobs=(train,), submit_many=(JOB,), judged=None)
    ((_, (_, (submission,)), _),) = [call for call in ran.calls if call[0] == "submit_many"]
    assert submission.after == (After(job=ID, when="any"), After(job=ID, when="ok"))
    unknown = headrace("submit --queue a/b --after yesterday -- true", jobs=())
    why = "job: no job has the id or the name 'yesterday'; `headrace jobs` lists them"
    assert unknown[:3] == (1, "", f"headrace: {why}\n")


def test_a_callback_with_half_a_quotation_is_refused(headrace):
    ran = headrace(["submit", "--queue", "a/b", "--on-abort", "save 'it", "--", "true"])
    assert ran.code == 2
    assert '"save \'it": No closing quotation; close it, or write a script and name that' in ran.err


def test_several_of_the_same_are_numbered(headrace):
    ran = headrace("submit --queue a/b --name r --count 2 -- true", submit_many=TWO, judged=None)
    assert ran.out == f"{ID}\n{OTHER}\n"
    _, submissions = submitted(ran)
    assert [submission.name for submission in submissions] == ["r-1", "r-2"]
    assert submissions[0].id != submissions[1].id


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("submit --queue a/b --time-limit 5x -- true", "time_limit: invalid duration '5x': use 90s, 10m, 1h30m or 2d"),
        ("submit --queue a/b --env NOT_SET_ANYWHERE -- true", "--env NOT_SET_ANYWHERE: the variable is not set here"),
        ("submit --queue a/b --on-behalf-of \0 -- true", "on_behalf_of: a NUL character is not allowed"),
        ("submit --queue a/b --time-limit=-5s -- true", "time_limit: invalid duration '-5s': use 90s, 10m, 1h30m or 2d"),
        ("submit --queue a/b --request gpu=1.23456 -- true", "request.gpu: 1.23456 gpu is not exact"),
    ],
)
def test_what_cannot_be_submitted_is_told_and_nothing_is(headrace, line, complaint):
    ran = headrace(line)
    assert (ran.code, ran.out, ran.calls) == (1, "", [])
    assert ran.err.startswith(f"headrace: {complaint}")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("end", "code", "line"),
    [
        (view("succeeded", exit_code=0), 0, ""),
        (view("failed", exit_code=3, reason="exited"), 3, f"headrace: {ID} failed: exit code 3\n"),
        (
            view("failed", exit_code=127, reason="exited", message="command not found: trian.py"),
            127,
            f"headrace: {ID} failed: exit code 127: command not found: trian.py\n",
        ),
        (view("failed", exit_code=137, reason="time_limit"), 137, f"headrace: {ID} failed: exit code 137: time limit\n"),
        (view("cancelled", reason="cancelled"), 1, f"headrace: {ID} cancelled\n"),
        (view("rejected", reason="TOO_FAST", message="slower"), 1, f"headrace: {ID} was rejected: TOO_FAST: slower\n"),
    ],
)
def test_waiting_ends_as_the_job_ends(headrace, end, code, line):
    ran = headrace("submit --queue a/b --wait -- true", submit_many=(JOB,), judged=end, wait=end)
    assert ran[:3] == (code, f"{ID}\n", line)


def test_waiting_for_one_job_prints_what_it_writes_and_then_how_it_ended(headrace):
    end = view("failed", exit_code=1, reason="exited", attempts=(AttemptView(attempt=1, pool="onprem", nodes=("gpu01",)),))
    pieces = [LogsAnswer(data="epoch 1\n", next_offset=8), LogsAnswer(next_offset=8, ended=True)]
    ran = headrace("submit --queue a/b --wait -- true", submit_many=(JOB,), judged=end, wait=end, logs=pieces)
    assert ran[:3] == (1, f"{ID}\nepoch 1\n", f"headrace: {ID} failed: exit code 1\n")


def test_waiting_for_one_job_outlives_output_that_cannot_be_read(headrace):
    end = view("succeeded", attempts=(AttemptView(attempt=1, pool="onprem", nodes=("gpu01",)),))
    ran = headrace(
        "submit --queue a/b --wait -- true", submit_many=(JOB,), judged=end, wait=end, logs=Refused("NOT_FOUND", "pruned")
    )
    assert ran[:3] == (0, f"{ID}\n", "")


def test_waiting_for_several_jobs_prints_none_of_their_output(headrace):
    ran = headrace("submit --queue a/b --wait --count 2 -- true", submit_many=TWO, wait=view("succeeded", exit_code=0))
    assert ran[:3] == (0, f"{ID}\n{OTHER}\n", "")


@pytest.fixture
def installation(tmp_path, monkeypatch):
    """Makes an installation on this machine that listens at an address; what is submitted is typed in `project`."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("HEADRACE_DATA", str(tmp_path))
    monkeypatch.setattr(submit_module.os, "geteuid", lambda: tmp_path.stat().st_uid or 1000)
    monkeypatch.setattr(submit_module, "only_here", lambda **_: submit_module.os.geteuid())
    return project


def workdir(headrace, *options):
    ran = headrace(["submit", "--queue", "a/b", *options, "--", "python", "train.py"], submit_many=(JOB,), judged=None)
    return submitted(ran)[1][0].workdir, ran.err


def test_a_job_starts_where_it_was_submitted_if_all_runs_on_this_machine(headrace, installation):
    assert workdir(headrace) == (str(installation), "")


@pytest.mark.parametrize("options", [("--image", "python:3.12"), ("--workdir", "")])
def test_a_job_in_an_image_or_with_an_empty_workdir_starts_in_a_directory_of_its_own(headrace, installation, options):
    assert workdir(headrace, *options) == ("", "")


def test_a_job_starts_in_a_directory_of_its_own_if_nodes_may_be_elsewhere(headrace, installation, monkeypatch):
    monkeypatch.setattr(submit_module, "only_here", lambda **_: None)
    assert workdir(headrace) == ("", "")


def test_a_job_starts_in_a_directory_of_its_own_if_its_account_may_not_enter_this_one(headrace, installation, monkeypatch):
    installation.chmod(0o700)
    monkeypatch.setattr(submit_module, "only_here", lambda **_: 0)
    why = f"headrace: the job starts in a directory of its own, because accounts of jobs may not enter {installation}\n"
    assert workdir(headrace) == ("", why)


def test_json_tells_ids_and_what_became_of_them(headrace):
    ran = headrace("submit --queue a/b --wait --json -- true", submit_many=(JOB,), wait=view("succeeded", exit_code=0))
    (printed,) = json.loads(ran.out)
    assert (printed["id"], printed["job"], printed["view"]["state"]) == (ID, JOB.key, "succeeded")


def test_a_bus_that_is_away_is_one_line(headrace):
    ran = headrace("submit --queue a/b -- true", submit_many=Unreachable("NATS does not answer"))
    assert ran[:3] == (1, "", "headrace: NATS does not answer\n")
