"""`headrace up`, `down`: what is typed, and what is told of a system that is not there or not well."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from headrace.cli.main import main, parser
from headrace.cli.operations import keep_up, up
from headrace.supervisor.installation import Installation, Settings
from headrace.supervisor.network.ports import PortTaken
from headrace.supervisor.processes.pidfile import Lock, RunningInstallation, write_running

LAST = Settings(host="gpu01", nats_port=4222, nodes=2, gpus=4, gpu_model="A100-80GB", labels={"site": "lab"})


@pytest.mark.parametrize(
    ("line", "settings"),
    [
        ("up", LAST),
        (
            "up --nodes 0",
            Settings(host="gpu01", nats_port=4222, nodes=0, gpus=4, gpu_model="A100-80GB", labels={"site": "lab"}),
        ),
        (
            "up --nodes 3 --gpus 8 --gpu-model H100-80GB --labels site=hq --labels rack=r7",
            Settings(host="gpu01", nats_port=4222, nodes=3, gpus=8, gpu_model="H100-80GB", labels={"site": "hq", "rack": "r7"}),
        ),
    ],
)
def test_what_is_not_said_is_as_it_was_the_last_time(line, settings):
    assert up.changed_settings(LAST, parser().parse_args(line.split())) == settings


@pytest.fixture
def installation(tmp_path):
    made = Installation(tmp_path)
    made.prepare()
    return made


def test_an_up_that_cannot_says_why_in_one_line(monkeypatch, capsys, installation):
    class Impossible:
        ready = False

        def __init__(self, *_, **__):
            pass

        async def __aenter__(self):
            raise PortTaken("port 4222 is taken")

        async def __aexit__(self, *_):
            raise AssertionError

    monkeypatch.setattr(keep_up, "Up", Impossible)
    monkeypatch.setattr(keep_up, "forking", lambda _: nullcontext())  # pytest may have other threads
    assert main(["up", "--data", str(installation.directory), "--nats-port", "4222"]) == 1
    assert capsys.readouterr().err == "headrace: port 4222 is taken\n"


def test_down_where_nothing_is_up_is_done(capsys, installation):
    assert main(["down", "--data", str(installation.directory)]) == 0
    assert capsys.readouterr().out == f"Headrace is not up in {installation.directory}.\n"


def test_a_down_that_takes_too_long_says_how_to_be_quicker(monkeypatch, capsys, installation):
    monkeypatch.setattr(up, "stop_running", lambda *_, **__: False)
    with Lock(installation):
        write_running(installation, RunningInstallation(pid=4711, since=1))
        assert main(["down", "--data", str(installation.directory)]) == 1
    assert capsys.readouterr().err == "headrace: it has not stopped within 120 s; `headrace down --now` waits for no job\n"
