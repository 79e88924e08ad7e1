"""Whose fault an engine's answer is; how containers run is shown through an engine in `test_container`."""

from __future__ import annotations

import base64
import contextlib
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.node_executor.runtimes import container_run
from headrace.node_executor.runtimes.container_run import (
    Engine,
    EngineError,
    Lost,
    NoImage,
    Output,
    Unreadable,
    blamed,
    follow,
    main,
    start,
    write_status,
)
from tests.mock_engine import Engine as Played


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (400, 'exec: "x": executable file not found\nin $PATH', 'failed 127 exec: "x": executable file not found in $PATH'),
        (500, 'exec: "x": exec format error', 'failed 126 exec: "x": exec format error'),
        (500, 'exec: "init": executable file not found', 'failed 0 exec: "init": executable file not found'),
        (
            500,
            "container-init binary not found: no such file or directory",
            "failed 0 container-init binary not found: no such file or directory",
        ),
        (409, "permission denied by somebody", "failed 0 permission denied by somebody"),
        (0, "the engine does not answer", "failed 0 the engine does not answer"),
    ],
)
def test_what_the_engine_says_is_the_jobs_fault_or_the_nodes(status, message, expected) -> None:
    """R36."""
    assert blamed(EngineError(status, message), "x") == expected


def test_what_is_not_there_needs_no_end(tmp_path) -> None:
    engine = Played(tmp_path / "sock")
    client = Engine(str(tmp_path / "sock"))
    client.kill("nobody")
    client.remove("nobody")
    client.pull("trainer:1")
    with pytest.raises(NoImage, match="cannot be pulled: manifest unknown"):
        client.pull("registry.local:5000/nowhere")
    engine.end()
    with pytest.raises(EngineError, match="does not answer"):
        client.kill("nobody")


def test_a_login_of_the_registry_is_shown_to_the_engine_when_it_pulls(tmp_path) -> None:
    engine = Played(tmp_path / "sock")
    client = Engine(str(tmp_path / "sock"))
    client.pull("other", "robot:s3:cret")
    (header,) = engine.logins
    assert json.loads(base64.urlsafe_b64decode(header)) == {"username": "robot", "password": "s3:cret"}
    engine.end()


def test_it_is_told_whole(tmp_path) -> None:
    write_status(str(tmp_path / "told"), "started")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("told", "started")]


class Restarted(Engine):
    """An engine that goes away during the first start; `state`: in which state the container is when it is there again."""

    def __init__(self, state: str) -> None:
        super().__init__("")
        self.state = state
        self.starts = 0

    def call(self, method: str, where: str, body: object = None, timeout: float | None = None) -> Any:
        if method == "GET":
            return {"State": {"Status": self.state}}
        self.starts += 1
        if self.starts == 1:
            raise EngineError(0, "it does not answer")
        return None


@pytest.mark.parametrize(("state", "starts"), [("running", 1), ("exited", 1), ("created", 2)])
def test_a_container_whose_engine_goes_away_while_it_is_started_is_started_once(monkeypatch, state, starts) -> None:
    monkeypatch.setattr(container_run, "LOOK_EVERY", 0.0)
    engine = Restarted(state)
    assert [start(engine, "x"), engine.starts] == [False, starts]


def test_an_answer_that_is_not_json_is_the_engines_error(tmp_path) -> None:
    engine = Played(tmp_path / "sock")
    engine.says = "<html>"
    with pytest.raises(EngineError, match="answers what is not JSON: b'<html>'"):
        Engine(engine.socket).call("GET", "/version")
    engine.end()


class Odd(Engine):
    """An engine that says this of a container, and nothing of its output."""

    def __init__(self, answer: object) -> None:
        super().__init__("")
        self.answer = answer

    @contextlib.contextmanager
    def open(self, *_: object, **__: object) -> Iterator[Any]:
        yield io.BytesIO()

    def call(self, method: str, where: str, body: object = None, timeout: float | None = None) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    "description", [{}, None, [], {"State": None}, {"State": {"Running": False, "ExitCode": "many"}}, Unreadable(0, "<html>")]
)
def test_a_container_that_the_engine_describes_badly_is_lost_with_the_reason(tmp_path, description) -> None:
    with pytest.raises(
        Lost, match="what the container engine says of the job's container cannot be understood: .*Error|Unreadable"
    ):
        follow(Odd(description), "x", Output(str(tmp_path / "printed")))


def test_where_a_container_cannot_be_made_because_of_nonsense_the_node_is_at_fault(tmp_path) -> None:
    """R36."""
    engine = Played(tmp_path / "sock")
    engine.says = "<html>"
    spec = {"socket": engine.socket, "name": "x", "told": str(tmp_path / "told"), "printed": str(tmp_path / "printed")}
    (tmp_path / "spec").write_text(
        json.dumps(spec | {"create": {}, "image": "trainer:1", "where": "/containers/create", "program": "true"})
    )
    assert main(str(tmp_path / "spec")) == 125
    assert (tmp_path / "told").read_text().startswith("failed 0 the container engine at ")
    engine.end()
