"""Failures are one line and an exit code, whatever fails."""

from __future__ import annotations

import argparse
import platform
from importlib.metadata import version

import pytest

from headrace.cli.arguments import Failed
from headrace.cli.jobs import jobs
from headrace.cli.main import COMMANDS, main, parser
from headrace.client import Refused, Unreachable
from headrace.domain.fold import apply
from headrace.supervisor.errors import InstallationError
from tests.replacing import is_compiled

SHOWN = (
    *("up", "down", "status", "apply", "get", "delete", "submit", "jobs", "job", "why", "logs", "cancel", "requeue"),
    *("queues", "pools", "nodes", "node", "usage", "simulate", "demo"),
)


def test_every_command_is_there_and_its_help_has_examples(capsys):
    for command in SHOWN:
        assert (main([command, "--help"]), "examples:" in capsys.readouterr().out) == (0, True), command


def commands_of(whole: argparse.ArgumentParser) -> tuple[str, ...]:
    (nouns,) = (action for action in whole._actions if isinstance(action, argparse._SubParsersAction))
    return tuple(nouns.choices)


def test_the_table_of_commands_says_what_each_module_adds():
    assert {module: commands_of(parser(commands[0])) for module, commands in COMMANDS.items()} == COMMANDS


def test_the_version_says_which_release_is_installed_and_how_its_rules_run(capsys):
    assert main(["--version"]) == 0
    rules = "compiled" if is_compiled(apply) else "plain Python"
    expected = f"headrace {version('headrace')} (rules: {rules}; Python {platform.python_version()})\n"
    assert capsys.readouterr() == (expected, "")


@pytest.mark.parametrize("word", ["", "--help", "--json", "unknown"])
def test_what_is_not_a_command_is_looked_at_with_all_commands_in_their_order(word):
    assert commands_of(parser(word)) == tuple(command for commands in COMMANDS.values() for command in commands)


@pytest.mark.parametrize("line", ["jobs", "job X", "why X", "queues", "pools", "nodes", "usage", "get pool", "status"])
def test_every_reading_command_has_json(line):
    assert parser().parse_args([*line.split(), "--json"]).json is True


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (Refused("NOT_FOUND", "no such job"), 1, "headrace: no such job\n"),
        (Unreachable("NATS does not answer"), 1, "headrace: NATS does not answer\n"),
        (InstallationError("the disk is full"), 1, "headrace: the disk is full\n"),
        (Failed("--env X: not here"), 1, "headrace: --env X: not here\n"),
        (Failed(), 1, ""),
        (
            UnicodeEncodeError("utf-8", "caf\udce9", 3, 4, "surrogates not allowed"),
            1,
            "headrace: 'caf\\udce9' is not UTF-8; names and texts are written in UTF-8\n",
        ),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_fails_is_one_line_and_an_exit_code(monkeypatch, capsys, error, code, line):
    def fail(_):
        raise error

    monkeypatch.setattr(jobs, "client", fail)
    assert main(["jobs"]) == code
    assert capsys.readouterr() == ("", line)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("", "headrace: the following arguments are required: COMMAND; `headrace --help` shows how\n"),
        ("jobs --foo", "headrace jobs: unknown option --foo; `headrace jobs --help` shows how\n"),
        ("jobs --stat x", "headrace jobs: unknown option --stat; did you mean --state? `headrace jobs --help` shows how\n"),
        (
            "submit --quue a/b -- true",
            "headrace submit: unknown option --quue; did you mean --queue? `headrace submit --help` shows how\n",
        ),
        (
            "submit --queue a/b python train.py --epochs 3",
            (
                "headrace submit: unknown option --epochs; write -- before the command if the option belongs to it; "
                "`headrace submit --help` shows how\n"
            ),
        ),
        (
            "jobs --since -5m",
            (
                "headrace jobs: argument --since: invalid time '-5m': write 2026-11-21T08:00:00Z, 2026-11-21, or 24h for a day ago; "
                "`headrace jobs --help` shows how\n"
            ),
        ),
        ("sumbit", "headrace: unknown command 'sumbit'; did you mean submit? `headrace --help` shows how\n"),
        (
            "token craete",
            "headrace token: unknown verb 'craete'; did you mean create? `headrace token --help` shows how\n",
        ),
        (
            "token xyz",
            "headrace token: unknown verb 'xyz'; choose one of create, list, revoke; `headrace token --help` shows how\n",
        ),
        (
            "get polcy",
            (
                "headrace get: argument KIND: unknown kind 'polcy'; did you mean policy?; choose one of tenant, user, group, "
                "pool, profile, policy; `headrace get --help` shows how\n"
            ),
        ),
        (
            "submit --queue a/b",
            "headrace submit: the following arguments are required: COMMAND; `headrace submit --help` shows how\n",
        ),
        (
            "up --nodes x",
            "headrace up: argument --nodes: invalid number 'x': write a whole number from 0 to 256; `headrace up --help` shows how\n",
        ),
    ],
)
def test_what_is_not_understood_is_one_line_and_exit_code_two(headrace, line, complaint):
    assert headrace(line)[:3] == (2, "", complaint)


@pytest.mark.parametrize(
    ("line", "there"),
    [
        ("--server https://a jobs", ("https://a", "", None)),
        ("--context=work --data /d jobs", ("", "work", "/d")),
        ("--server https://a jobs --server https://b", ("https://b", "", None)),
        ("--server https://a node cordon gpu01", ("https://a", "", None)),
        ("--server https://a submit --queue a/b -- true --server https://b", ("https://a", "", None)),
    ],
)
def test_where_to_ask_may_be_said_before_the_command(monkeypatch, line, there):
    asked = []

    def found(chosen):
        asked.append((chosen.server, chosen.context, chosen.data))
        raise Unreachable("away")

    monkeypatch.setattr("headrace.client.client.find_targets", found)
    assert main(line.split()) == 1
    assert asked == [there]


def test_a_command_about_this_machine_does_not_take_an_address(capsys):
    assert main(["--server", "https://a", "down"]) == 2
    assert capsys.readouterr().err == (
        "headrace down: --server: this command works on this machine only and takes no such option; `headrace down --help` shows how\n"
    )


def test_without_an_installation_the_way_out_is_told(monkeypatch, capsys, tmp_path):
    for name in ("HEADRACE_URL", "HEADRACE_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    assert main(["jobs", "--data", str(tmp_path)]) == 1
    line = f"headrace: no Headrace in {tmp_path}. Start one with `headrace up`, or name it with HEADRACE_DATA\n"
    assert capsys.readouterr().err == line
