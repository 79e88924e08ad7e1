"""`headrace context`: named installations; tokens are stored and never printed."""

from __future__ import annotations

import io
import json

import pytest

from headrace.cli.main import main


@pytest.fixture
def context(monkeypatch, capsys, tmp_path):
    """Run `headrace context ...` on a file of its own."""
    monkeypatch.setenv("HEADRACE_CONTEXTS", str(tmp_path / "contexts.json"))
    monkeypatch.delenv("HEADRACE_TOKEN", raising=False)

    def run(line):
        try:
            code = main(["context", *line.split()])
        except SystemExit as ended:
            code = ended.code
        return code, *capsys.readouterr()

    return run


def test_the_first_context_is_the_current_one_and_another_is_chosen_by_use(context, monkeypatch):
    monkeypatch.setenv("HEADRACE_TOKEN", "secret-1")
    assert context("add work --server https://work:8080/") == (0, "work is https://work:8080\n", "")
    assert context("add home --server https://home") == (
        0,
        "home is https://home; `headrace context use home` makes it the current one\n",
        "",
    )
    assert context("use home")[1] == "commands use https://home from now on\n"
    code, out, _ = context("list --json")
    assert (code, [(row["name"], row["current"], row["token"]) for row in json.loads(out)]) == (
        0,
        [("home", True, True), ("work", False, True)],
    )
    assert "secret-1" not in out
    assert context("use local")[1] == "commands use the installation on this machine from now on\n"
    lines = [line.split()[0] for line in context("list")[1].splitlines()]
    assert lines == ["CURRENT", "*", "home", "work"]


def test_a_context_that_is_removed_is_no_longer_the_current_one(context):
    context("add work --server https://work")
    assert context("remove work") == (0, "work is removed\n", "")
    assert json.loads(context("list --json")[1]) == []
    assert (
        context("remove work")[2]
        == "headrace: context: unknown context 'work'; there are none; `headrace context add` adds one\n"
    )


def test_a_token_comes_from_a_file_or_standard_input(context, monkeypatch, tmp_path):
    file = tmp_path / "token"
    file.write_text("aaa\n")
    assert context(f"add a --server https://a --token-file {file}")[0] == 0
    monkeypatch.setattr("sys.stdin", io.StringIO("bbb\n"))
    assert context("add b --server https://b --token-file -")[0] == 0
    stored = json.loads((tmp_path / "contexts.json").read_text())["contexts"]
    assert (stored["a"]["token"], stored["b"]["token"]) == ("aaa", "bbb")
    assert context("add c --server https://c --token-file /none")[2].startswith("headrace: --token-file: /none cannot be read")
    file.write_text("\n")
    assert context(f"add c --server https://c --token-file {file}")[2].endswith(
        "has no token; `headrace token create` prints one\n"
    )


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("add local --server https://a", 2, "invalid name 'local'"),
        ("add A --server https://a", 2, "invalid name 'A'"),
        ("add a --server http://api.example", 1, "others on the network can read the token; write https://"),
        ("add a --server https://a --ca /none", 1, "/none cannot be used as a certificate authority"),
        ("use nowhere", 1, "unknown context 'nowhere'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(context, line, code, message):
    ran = context(line)
    assert (ran[0], ran[1], message in ran[2], ran[2].count("\n")) == (code, "", True, 1)
