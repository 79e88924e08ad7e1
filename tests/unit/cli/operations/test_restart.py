from __future__ import annotations

import os

import pytest
from msgspec import Raw

from headrace.cli.main import main
from headrace.cli.operations import restart as module
from headrace.client import Unreachable
from headrace.contracts.messages.queries import Answer, ServiceView
from headrace.contracts.transport.codec import encode
from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.pidfile import ChildView, Lock, RunningInstallation, write_running
from headrace.supervisor.processes.readiness import NotReady


@pytest.fixture
def installation(tmp_path):
    one = Installation(tmp_path / "data")
    one.prepare()
    return one


@pytest.fixture
def run(monkeypatch, capsys, installation):
    """`headrace restart` where an `up` runs; `broken`: the part that does not come back."""

    class Rolling:
        def __init__(self, *_):
            pass

        async def restart(self, name):
            if name == run.broken:
                raise NotReady(f"{name} does not start again")
            return 1.25

    class Inspector:
        @classmethod
        async def open(cls, *_):
            return cls()

        async def close(self):
            return None

    class Operator:
        async def __aenter__(self):
            return self

        async def __aexit__(self, *_):
            return None

        async def ask(self, subject, **_):
            name = subject.split(".")[2]
            if name == "preemption":
                raise Unreachable("it is away")
            decides = int(name == "allocator")
            view = ServiceView(service=name, folded=1, now=1, engine="e", detail={"decides": decides})
            return encode(Answer(sequence=1, body=Raw(encode(view))))

    monkeypatch.setattr(module, "Rolling", Rolling)
    monkeypatch.setattr(module, "Inspector", Inspector)
    monkeypatch.setattr(module, "operator_client", lambda _: Operator())
    names = ("nats-server", "allocator", "allocator-standby", "preemption", "gateway")

    def run(*arguments):
        children = tuple(ChildView(name=name, state="running", pid=1) for name in names)
        with Lock(installation):
            write_running(installation, RunningInstallation(pid=os.getpid(), since=1, children=children))
            code = main(["restart", "--data", str(installation.directory), *arguments])
        return code, *capsys.readouterr()

    run.broken = ""
    return run


def test_without_names_all_of_ours_go_one_after_the_other(run):
    code, out, err = run()
    assert (code, err) == (0, "")
    assert [line.split()[1] for line in out.splitlines()[:-1]] == ["allocator-standby", "allocator", "preemption", "gateway"]
    assert out.splitlines()[0] == "  1/4 allocator-standby    back after 1.2 s"


def test_named_parts_go_alone_and_the_first_that_does_not_come_back_ends_it(run):
    run.broken = "gateway"
    code, out, err = run("nats-server", "gateway", "allocator")
    assert (code, err) == (1, "headrace: gateway does not start again\n")
    assert "nats-server" in out
    assert "allocator" not in out


def test_a_part_that_there_is_not_is_refused_before_anything_is_done(run):
    code, out, err = run("gatway")
    assert (code, out) == (1, "")
    assert (
        err == "headrace: unknown part 'gatway'; choose from nats-server, allocator, allocator-standby, preemption, gateway\n"
    )


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        ("issuers.yaml", "issuers: [{nam: x}]", "issuers.yaml: Object contains unknown field `nam`"),
        ("installation.json", "{", "installation.json is damaged"),
        ("endpoint.json", "{}", "endpoint.json is damaged"),
        ("credentials/operator.json", "", "credentials/operator.json is damaged"),
    ],
)
def test_with_a_file_that_cannot_be_read_nothing_is_restarted(run, installation, file, text, complaint):
    (installation.directory / file).write_text(text)
    code, out, err = run("gateway")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"headrace: nothing is restarted: {installation.directory}/{complaint}")


def test_where_nothing_is_up_nothing_can_be_restarted(capsys, installation):
    assert main(["restart", "--data", str(installation.directory)]) == 1
    assert capsys.readouterr().err == f"headrace: Headrace is not up in {installation.directory}; `headrace up` starts it\n"
