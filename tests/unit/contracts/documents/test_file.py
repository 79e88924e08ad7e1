"""Whatever lies in a file, what is said about it is a line for each mistake, with its place and the way out, in bounded time."""

from __future__ import annotations

import io
import sys
import time

import pytest

from headrace.contracts.documents.file import read_file
from headrace.contracts.documents.reader import read_documents
from headrace.contracts.documents.tree import DocumentErrors
from headrace.contracts.documents.yaml_text import TEXT_MAX
from headrace.simulate.scenario import read_scenario
from tests.patience import PATIENCE

BASE = """nodes: [{name: n, labels: {site: a}, gpus: 2}]
pools: [{name: a, selector: {site: a}}]
profiles: [{name: one, request: {gpu: 1}, pools: [a]}]
policies: [{name: p, profiles: [one]}]
"""
NINES = "9" * 5_000


def rules(text: str) -> str:
    return f"{BASE}groups: [{{name: a, runtime: {text}}}]\n"


def event(text: str) -> str:
    return f"{BASE}timeline: [{text}]\n"


def request(text: str) -> str:
    return BASE.replace("request: {gpu: 1}", f"request: {text}")


def policy(text: str) -> str:
    return BASE.replace("profiles: [one]}", f"profiles: [one], {text}}}")


LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + depth)}: &{chr(98 + depth)} [{','.join(['*' + chr(97 + depth)] * 10)}]\n" for depth in range(9)
)

HOSTILE: dict[str, tuple[str | bytes, str]] = {
    "an unknown key at the top": ("pool: []\n", "line 1: pool: unknown key 'pool'; did you mean 'pools'?"),
    "an unknown key inside": (BASE.replace("gpus", "gpu"), "line 1: nodes[0].gpu: unknown key 'gpu'"),
    "an unknown event": (event("{at: 0s, sumbit: {name: x, queue: p/one}}"), "line 5: timeline[0].sumbit: unknown key"),
    "two events in one": (event("{at: 0s, finish: x, fail: x}"), "line 5: timeline[0]: one thing happens in each entry"),
    "a wrong unit": (request("{gpu: 1, memory: 3XB}"), "line 3: profiles[0].request.memory: invalid amount of memory '3XB'"),
    "a duration in words": (event("{at: 5 minutes, finish: x}"), "line 5: timeline[0].at: invalid duration '5 minutes'"),
    "an inexact fraction": (request('{gpu: "1/11"}'), "line 3: profiles[0].request.gpu: 1/11 gpu is not exact"),
    "an inexact decimal": (request("{gpu: 0.3333}"), "line 3: profiles[0].request.gpu: 0.3333 gpu is not exact"),
    "an exponent": (request("{gpu: 1e0}"), "line 3: profiles[0].request.gpu: invalid amount of gpu '1e0'"),
    "no number": (request("{gpu: .nan}"), "line 3: profiles[0].request.gpu: invalid amount of gpu '.nan'"),
    "infinity": (request("{gpu: .inf}"), "line 3: profiles[0].request.gpu: invalid amount of gpu '.inf'"),
    "one and a quarter": (request("{gpu: 1.25}"), "line 3: profiles[0].request.gpu: from one GPU up a request is whole"),
    "a negative amount": (request("{gpu: -1}"), "line 3: profiles[0].request.gpu: invalid amount of gpu '-1'"),
    "a negative count": (BASE.replace("gpus: 2", "gpus: -2"), "line 1: nodes[0].gpus: -2 is too small"),
    "a negative moment": (event("{at: -5s, finish: x}"), "line 5: timeline[0].at: invalid duration '-5s'"),
    "a number of five thousand digits": (
        BASE.replace("gpus: 2", f"gpus: {NINES}"),
        "line 1: nodes[0].gpus: invalid number '9999",
    ),
    "an amount of five thousand digits": (
        request(f"{{gpu: {NINES}}}"),
        "line 3: profiles[0].request.gpu: invalid amount of gpu '9999",
    ),
    "a moment after all time": (event("{at: 99999999d, finish: x}"), "line 5: timeline[0].at: 99999999d is too long"),
    "a moment after a century": (event("{at: 40000d, finish: x}"), "line 5: timeline[0].at: 40000d is too long"),
    "a million elements": ("policies: [" + "a," * 1_000_000 + "]\n", "line 1: policies: a file is at most 500000 values"),
    "a million members": (
        f"{BASE}groups: [{{name: g, members: [{','.join(['u'] * 1_000_000)}]}}]\n",
        "line 5: groups[0].members: a file is at most 500000 values",
    ),
    "too many jobs": (event("{at: 0s, submit: {name: x, queue: p/one, count: 9999999}}"), "line 5: timeline[0].submit.count: "),
    "too many jobs in all": (
        event(", ".join(f"{{at: 0s, submit: {{name: x{n}, queue: p/one, count: 600000}}}}" for n in range(2))),
        "line 5: timeline: 1200000 jobs are too many",
    ),
    "too many nodes": (BASE.replace("gpus: 2", "count: 200000"), "line 1: nodes: 200000 nodes with 0 GPUs are too many"),
    "too many GPUs": (BASE.replace("gpus: 2", "gpus: 1000, count: 1001"), "line 1: nodes: 1001 nodes with 1001000 GPUs"),
    "endless checkpoints": (
        event("{at: 0s, submit: {name: x, queue: p/one, checkpoint_every: 1us}}"),
        "line 5: timeline[0].submit.checkpoint_every: write 1s or more",
    ),
    "two of one name": (
        BASE.replace("pools: [{", "pools: [{name: a, selector: {site: b}}, {", 1),
        "line 2: pools[1]: a occurs twice in this list",
    ),
    "a key twice": (f"{BASE}nodes: []\n", "line 5: nodes: this key is on line 1 already"),
    "a key twice inside": (BASE.replace("gpus: 2", "gpus: 2, gpus: 3"), "line 1: nodes[0].gpus: this key is on line 1"),
    "a job twice": (
        event("{at: 0s, submit: {name: x, queue: p/one}}, {at: 1s, submit: {name: x, queue: p/one}}"),
        "line 5: timeline[1].submit.name: there is a job x already",
    ),
    "an alias of itself": ("nodes: &a [*a]\n", "line 1: nodes: the alias *a contains itself"),
    "an alias of nothing": ("nodes: *nope\n", "line 1: the alias *nope names no anchor"),
    "a merge": ("d: &d {name: a}\npools: [{<<: *d}]\n", "line 1: d: unknown key 'd'"),
    "a billion laughs": (LAUGHS, "line 6: f: a file is at most 500000 values"),
    "deep lists": ("a: " + "[" * 10_000 + "]" * 10_000, "line 1: a[0][0]"),
    "deep mappings": ("{a: " * 5_000 + "1" + "}" * 5_000, "line 1: a.a.a"),
    "deep blocks": ("".join(f"{' ' * depth}a:\n" for depth in range(2_000)), "line 33: a.a.a"),
    "a tag": ("nodes: !!python/object/apply:os.system ['id']\n", "line 1: the tag tag:yaml.org,2002:python/object"),
    "a tab": ("nodes:\n\t- name: x\n", "line 2: malformed YAML: "),
    "nothing": ("", "the file is empty"),
    "nothing but a comment": ("# nothing\n", "the file is empty"),
    "a list at the top": ("- a\n", "line 1: write a mapping such as policies"),
    "a word at the top": ("hello\n", "line 1: write a mapping such as policies"),
    "null at the top": ("null\n", "line 1: write a mapping such as policies"),
    "a collection as a key": ("? [a, b]\n: 1\n", "line 1: a key is plain text, not a collection"),
    "an open bracket": ("nodes: [{name: a\n", "line 2: malformed YAML: "),
    "a very long key": (f"{BASE}{'x' * 100_000}: 1\n", "line 5: malformed YAML: "),
    "a very long text": (
        f"tenants: [{{name: t, display_name: {'x' * 7_000_000}}}]\n",
        "line 1: tenants[0].display_name: write one line of at most 500",
    ),
    "a very large file": ("#" + "x" * TEXT_MAX, f"a file is at most {TEXT_MAX} characters"),
    "a mapping for a list": (
        BASE.replace("[{name: a, sel", "{a: {sel").replace("a}}]\nprof", "a}}}\nprof"),
        "line 2: pools: write a list",
    ),
    "a list for a mapping": (BASE.replace("r: {site: a}", "r: [a]"), "line 2: pools[0].selector: write a mapping"),
    "yes": (request("{gpu: 1}, reclaim_before_spill: yes"), "line 3: profiles[0].reclaim_before_spill: invalid flag 'yes'"),
    "a zone that is a path": (
        policy('windows: [{days: [mon], from: "08:00", to: "09:00", timezone: ../../etc/passwd}]'),
        "line 4: policies[0].windows[0].timezone: invalid time zone '../../etc/passwd'",
    ),
    "a time after midnight": (
        policy('windows: [{days: [mon], from: "08:00", to: "25:00"}]'),
        "line 4: policies[0].windows[0].to: invalid time of day '25:00'",
    ),
    "a rate of nothing": (
        "tenants: [{name: t, submit_rate: {per_second: 0}}]\n",
        "line 1: tenants[0].submit_rate.per_second: 0 is",
    ),
    "a secret with its value": (
        rules("{secrets: {HF: hf_abcdef}}"),
        "line 5: groups[0].runtime.secrets.HF: invalid reference to a secret 'hf_abcdef'",
    ),
    "a secret elsewhere": (
        rules("{secrets: {HF: 'file:../../shadow'}}"),
        "line 5: groups[0].runtime.secrets.HF: invalid reference to a secret 'file:../../shadow'",
    ),
    "a secret that is not named": (
        rules("{give_secrets: [HF]}"),
        "line 5: groups[0].runtime.give_secrets[0]: HF is missing in secrets",
    ),
    "a secret in the open": (
        rules("{env: {A: b}, secrets: {A: 'file:a'}}"),
        "line 5: groups[0].runtime.env.A: it is one of the secrets",
    ),
    "a variable that is none": (
        rules("{env: {A-B: c}}"),
        "line 5: groups[0].runtime.env.A-B: invalid name of a variable 'A-B'",
    ),
    "a mount that climbs": (
        rules("{mounts: [{source: /a/../b, target: /b}]}"),
        "line 5: groups[0].runtime.mounts[0].source: invalid directory '/a/../b'",
    ),
    "a mount from here": (
        rules("{mounts: [{source: a, target: /b}]}"),
        "line 5: groups[0].runtime.mounts[0].source: invalid directory 'a'",
    ),
    "two mounts in one": (
        rules("{mounts: [{source: /a, target: /b}, {source: /c, target: /b}]}"),
        "line 5: groups[0].runtime.mou",
    ),
    "a stranger who speaks": (
        f"{BASE}groups: [{{name: a, on_behalf: [x]}}]\n",
        "line 5: groups[0].on_behalf[0]: x is missing in service_accounts",
    ),
    "a bell in a name": (f'{BASE}groups: [{{name: "a\\u0007b"}}]\n', "line 5: groups[0].name: invalid name 'a\\x07b'"),
    "text that runs backwards": (f"{BASE}groups: [{{name: a\u202eb}}]\n", "line 5: groups[0].name: "),
    "half a character": (f'{BASE}groups: [{{name: "\\ud800"}}]\n', "line 5: malformed YAML: "),
    "a job that was never submitted": (event("{at: 0s, finish: zzz}"), "line 5: timeline[0].finish: no job zzz"),
    "a node that there is not": (event("{at: 0s, node_lost: zzz}"), "line 5: timeline[0].node_lost: node zzz does not exist"),
    "a state that there is not": (event("{at: 0s, expect: {jobs: {z: runing}}}"), "line 5: timeline[0].expect.jobs.z: 'runing'"),
    "bytes": (bytes(range(256)) * 10, "line 2: this is not UTF-8; save the file as UTF-8 text"),
    "another encoding": (f"{BASE}# caf\u00e9\n".encode("latin-1"), "line 5: this is not UTF-8"),
    "two bytes for each character": (BASE.encode("utf-16"), "line 1: this is not UTF-8"),
    "a NUL": (BASE.encode() + b"\0\0", "line 5: malformed YAML: the character 0x0000"),
}  # fmt: skip


@pytest.mark.parametrize("written", HOSTILE)
def test_a_hostile_scenario_is_a_line_with_its_place_and_soon(tmp_path, written):
    text, expected = HOSTILE[written]
    file = tmp_path / "scenario.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    began = time.monotonic()
    with pytest.raises(DocumentErrors) as refused:
        read_scenario(read_file(str(file)))
    lines = [str(error) for error in refused.value.errors]
    assert any(line.startswith(expected) for line in lines), lines[:3]
    assert all("\n" not in line and len(line) < 600 for line in lines)
    assert time.monotonic() - began < PATIENCE


@pytest.mark.parametrize("name", ["a billion laughs", "deep lists", "a tag", "a NUL", "two of one name", "a key twice inside"])
def test_governance_documents_are_read_as_carefully(tmp_path, name):
    text, _ = HOSTILE[name]
    file = tmp_path / "documents.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DocumentErrors):
        read_documents(read_file(str(file)))


def test_what_is_not_a_file_is_a_line_too(tmp_path):
    for name, why in (
        (tmp_path, "Is a directory"),
        (tmp_path / "none", "No such file or directory"),
        ("a\0b", "embedded null byte"),
    ):
        with pytest.raises(DocumentErrors) as refused:
            read_file(str(name))
        assert str(refused.value) == f"it cannot be read: {why}"


def test_what_has_no_end_is_not_read_to_it():
    with pytest.raises(DocumentErrors) as refused:
        read_file("/dev/zero")
    assert str(refused.value) == f"a file is at most {TEXT_MAX} characters, this has more"


def test_standard_input_and_a_mark_of_byte_order_are_read_like_anything(tmp_path, monkeypatch):
    file = tmp_path / "marked.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + BASE.encode())
    marked = read_file(str(file))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BASE.encode())))
    assert read_file("-") == marked
