"""What is typed is read exactly, and what cannot be read is one line with the way out."""

from __future__ import annotations

import argparse
import time

import pytest

from headrace.cli import arguments
from headrace.cli.arguments import (
    Parser,
    add_command,
    add_login_options,
    currency,
    instant,
    key_value,
    moment,
    names,
    natural,
    positive,
)
from headrace.contracts.values.durations import HOUR, parse_time


def test_a_complaint_is_one_line_and_exit_code_two(capsys):
    parser = Parser(prog="headrace up")
    with pytest.raises(SystemExit) as caught:
        parser.error("argument --nodes: x is no number")
    assert caught.value.code == 2
    assert capsys.readouterr().err == "headrace up: argument --nodes: x is no number; `headrace up --help` shows how\n"


def test_flags_are_not_guessed_from_their_beginnings(capsys):
    parser = Parser(prog="headrace")
    parser.add_argument("--nodes")
    with pytest.raises(SystemExit):
        parser.parse_args(["--node", "1"])
    assert capsys.readouterr().err == "headrace: unknown option --node; did you mean --nodes? `headrace --help` shows how\n"


def test_a_command_knows_what_it_does_and_shows_its_examples():
    nouns = Parser(prog="headrace").add_subparsers(parser_class=Parser)
    run = object()
    parser = add_command(nouns, "jobs", run, "list jobs", "headrace jobs\n   headrace jobs --json")
    assert parser.get_default("run") is run
    assert parser.format_help().endswith("examples:\n  headrace jobs\n  headrace jobs --json\n")


def test_a_client_is_whom_the_flags_name(monkeypatch):
    monkeypatch.setattr("headrace.client.client.Client", lambda _url, _credentials, **parsed: parsed)
    parser = Parser(prog="headrace")
    add_login_options(parser)
    nothing = {"data": None, "tenant": "", "user": "", "server": "", "context": "", "prefers_api": True, "answer_within": None}
    assert arguments.client(parser.parse_args([])) == nothing
    parsed = parser.parse_args(["--data", "/d", "--tenant", "acme", "--user", "bob", "--json"])
    assert arguments.client(parsed) == nothing | {"data": "/d", "tenant": "acme", "user": "bob"}
    another_place = parser.parse_args(["--server", "https://a", "--context", "work"])
    assert arguments.client(another_place) == nothing | {"server": "https://a", "context": "work"}
    assert parsed.json is True


def test_words_are_read_as_what_they_stand_for():
    assert key_value("gpu=1/7") == ("gpu", "1/7")
    assert key_value("url=a=b") == ("url", "a=b")
    assert names("group, user,") == ("group", "user")
    assert (positive("3"), natural("0"), currency("EUR")) == (3, 0, "EUR")


def test_a_moment_is_a_date_or_a_span_before_now():
    assert moment("2026-11-21") == parse_time("2026-11-21T00:00:00Z")
    before = time.time_ns() // 1_000
    assert before - 24 * HOUR <= moment("24h") <= time.time_ns() // 1_000 - 24 * HOUR


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (key_value, "gpu", "expected KEY=VALUE, not 'gpu'"),
        (key_value, "=1", "expected KEY=VALUE, not '=1'"),
        (positive, "0", "invalid number '0': write a whole number from 1 on"),
        (currency, "Euro", "invalid currency 'Euro': write three letters of ISO 4217, such as EUR"),
        (positive, "x", "invalid number 'x': write a whole number from 1 on"),
        (natural, "-1", "invalid number '-1': write a whole number from 0 on"),
        (moment, "yesterday", "invalid time 'yesterday': write 2026-11-21T08:00:00Z, 2026-11-21, or 24h for a day ago"),
        (
            instant,
            "yesterday",
            "invalid time 'yesterday': write 2026-11-21T08:00:00Z, 2026-11-21, or 24h for a day ago, or a record's number such as 81234",
        ),
    ],
)
def test_what_cannot_be_read_says_how_to_write_it(read, text, message):
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        read(text)
    assert str(caught.value) == message


def test_a_number_is_a_record_and_all_else_a_moment():
    assert (instant("81234"), instant("2026-11-21T08:00:00Z")) == ((81_234, 0), (0, parse_time("2026-11-21T08:00:00Z")))
    for wrong in ("0", "yesterday"):
        with pytest.raises(argparse.ArgumentTypeError):
            instant(wrong)
