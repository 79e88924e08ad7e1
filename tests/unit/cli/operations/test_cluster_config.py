"""`headrace config`: what is said is written, printed and made; what is missing is asked for."""

from __future__ import annotations

import asyncio
import base64
import json
import re

import pytest

from headrace.bus.log import LogRefused, LogUnavailable
from headrace.cli.main import main
from headrace.cli.operations import cluster_config

SERVERS = ("--nats", "nats://127.0.0.1:4222", "--postgres", "postgresql://db/headrace")


@pytest.fixture
def run(capsys, tmp_path):
    def headrace(verb, *words):
        code = main(["config", verb, *words, "--data", str(tmp_path / "data")])
        return code, *capsys.readouterr()

    return headrace


def test_it_tells_what_it_wrote_and_what_comes_next(run, tmp_path):
    code, out, err = run("write", *SERVERS)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert f"{tmp_path}/data/env/allocator@1.env" in lines
    assert lines[-1].startswith("Next: start the NATS servers with nats/*.conf, then `headrace config streams --data ")


def test_the_first_time_it_asks_for_what_it_has_to_know_and_later_for_nothing(run):
    assert run("write") == (
        1,
        "",
        "headrace: --nats and --postgres: required; `headrace config write --help` shows how\n",
    )
    assert run("write", *SERVERS)[0] == 0
    assert run("write", "--listen", "127.0.0.1:9000")[0] == 0
    assert '"port_value": 9000' in run("envoy")[1]


def test_a_server_is_printed_by_its_name(run, tmp_path):
    run("write", *SERVERS)
    assert run("nats")[1] == (tmp_path / "data/nats/headrace-1.conf").read_text()
    assert run("nats", "other") == (1, "", "headrace: other: unknown server; choose one of headrace-1\n")


@pytest.mark.parametrize(
    ("nats", "copies", "awaited"), [("nats://127.0.0.1:1", 1, []), ("nats://a,nats://b,nats://c", 3, ["led"])]
)
def test_streams_are_made_with_a_copy_on_each_server_and_feed_is_led(run, monkeypatch, nats, copies, awaited):
    made = []

    class Connection:
        async def close(self):
            made.append("closed")

    async def connect(url, user, password, *, name):
        made.append((url, user, bool(password), name))
        return Connection()

    async def ensure(_connection, replicas):
        made.append(replicas)

    monkeypatch.setattr(cluster_config, "connect", connect)

    async def until_led(_self):
        made.append("led")

    monkeypatch.setattr(cluster_config, "until_streams", ensure)
    if awaited:
        monkeypatch.setattr(cluster_config.Leaderless, "until_led", until_led)
    run("write", "--nats", nats, "--postgres", "x", "--in-the-clear")
    code, out, _ = run("streams")
    assert (code, made) == (0, [(nats, "operator", True, "headrace config"), copies, *awaited, "closed"])
    assert out.startswith("SUBMIT, LEDGER, FEED, OBJ_snapshots: ready, ")


def test_a_server_that_refuses_is_one_line(run, monkeypatch):
    async def connect(*_, **__):
        raise LogRefused("NATS does not let 'operator' in")

    monkeypatch.setattr(cluster_config, "connect", connect)
    run("write", *SERVERS)
    assert run("streams") == (1, "", "headrace: NATS does not let 'operator' in\n")


def test_servers_that_are_not_there_are_named_with_what_starts_them(run, monkeypatch):
    async def connect(*_, **__):
        await asyncio.Event().wait()

    monkeypatch.setattr(cluster_config, "connect", connect)
    monkeypatch.setattr(cluster_config, "PATIENCE", 0)
    run("write", *SERVERS)
    assert run("streams") == (
        1,
        "",
        (
            "headrace: no NATS server has answered within 0 s: start them with nats/*.conf first. "
            "It takes the NATS server at nats://127.0.0.1:4222\n"
        ),
    )


def test_servers_that_do_not_agree_are_one_line(run, monkeypatch):
    class Connection:
        async def close(self):
            pass

    async def connect(*_, **__):
        return Connection()

    async def until_streams(*_):
        raise LogUnavailable("no answer on $JS.API.STREAM.INFO.SUBMIT within 1 s")

    monkeypatch.setattr(cluster_config, "connect", connect)
    monkeypatch.setattr(cluster_config, "until_streams", until_streams)
    run("write", "--nats", "nats://a,nats://b,nats://c", "--postgres", "x", "--in-the-clear")
    assert run("streams") == (
        1,
        "",
        (
            "headrace: no answer on $JS.API.STREAM.INFO.SUBMIT within 1 s. "
            "It takes most of the NATS servers at nats://a,nats://b,nats://c\n"
        ),
    )


def test_everything_that_pods_need_is_one_secret_and_the_key_of_the_authority_is_not_in_it(run, tmp_path):
    place = ("--as", "/var/lib/headrace", "--simulated-nodes", "sim")
    run("write", "--nats", "tls://hr-nats-0.hr-nats", "--postgres", "postgresql://db/headrace", "--dev-ca", *place)
    code, out, err = run("secret", "hr-config")
    assert (code, err) == (0, "")
    secret = json.loads(out)
    assert (secret["kind"], secret["metadata"]) == ("Secret", {"name": "hr-config"})
    files = {key: base64.b64decode(text) for key, text in secret["data"].items()}
    data = tmp_path / "data"
    assert files["env__allocator.1.env"] == (data / "env/allocator@1.env").read_bytes()
    assert files["nats__headrace-1.conf"] == (data / "nats/headrace-1.conf").read_bytes()
    assert {"env__node-sim.env", "gateway__api.pb", "identity__callout.key", "tls__ca.pem", "tls__server.key"} <= set(files)
    assert {"credentials__operator.json", "credentials__owner.json", "endpoint.json", "elsewhere.json"} <= set(files)
    assert "tls__ca.key" not in files
    assert [key for key in files if not re.fullmatch(r"[-._a-zA-Z0-9]+", key)] == []


def test_a_secret_with_a_malformed_name_or_of_nothing_is_refused(run):
    assert run("secret")[0] == 1
    run("write", *SERVERS)
    assert run("secret", "Hr_config")[2] == "headrace: invalid name 'Hr_config': use 1-253 of a-z, 0-9, '-' and '.'\n"
