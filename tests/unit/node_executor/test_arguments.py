from __future__ import annotations

import json
from base64 import urlsafe_b64encode

import pytest

from headrace.contracts.facts.nodes import Device
from headrace.nats_client.connection import Address
from headrace.node_executor.arguments import node_name, parse
from headrace.node_executor.self_end import Limits


def test_everything_that_can_be_said_is_understood(tmp_path) -> None:
    words = (
        f"run --name gpu01-hq --data {tmp_path} --labels site=hq,rack=r7 --labels zone=a --devices sim:2xH100-80GB --cpus 2.5 "
        "--address 10.0.0.7 "
        "--memory 256GiB --checkpoints /shared --secrets /s --pass-env SCRATCH --pass-env PROXY --output-limit 1MiB --keep 1d "
        "--keep-logs 1GiB --on-stop end --stop-grace 3s "
        "--containers /engine.sock --run-as self --limits off --metadata allow --pids 512 --work-limit 2GiB "
        "--work-files 9000 --heartbeat 500ms --ask-every 1m "
        "--join-within 8m --orphan-after 30m --max-life 24h --notice /notice --power-off poweroff"
    )
    environ = {"HEADRACE_NATS_URL": "nats://h:1", "HEADRACE_NATS_USER": "node-gpu01", "HEADRACE_NATS_PASSWORD": "pw"}
    settings = parse(words.split(), environ)
    assert settings.devices.inventory()[1] == Device(device="gpu1", model="H100-80GB", memory=81920)
    assert settings._replace(devices=None) == (
        "gpu01-hq",
        str(tmp_path),
        {"address": "10.0.0.7", "site": "hq", "rack": "r7", "zone": "a"},
        None,
        2500,
        262144,
        "/shared",
        "/s",
        ("SCRATCH", "PROXY"),
        1024**2,
        86400.0,
        1024**3,
        "/engine.sock",
        "self",
        "off",
        "allow",
        512,
        2 * 1024**3,
        9000,
        "end",
        3.0,
        0.5,
        60.0,
        Address("nats://h:1", "node-gpu01", "pw"),
        Limits(join_within=480.0, orphan_after=1800.0, max_life=86400.0, notice="/notice"),
        "poweroff",
    )


def test_nothing_has_to_be_said(tmp_path, monkeypatch, no_gpus) -> None:
    monkeypatch.chdir(tmp_path)
    settings = parse(["run"], {})
    assert settings.data == f"{tmp_path}/headrace-node"
    assert settings.secrets == f"{tmp_path}/headrace-node/secrets"
    assert settings.devices.inventory() == ()
    assert settings.cpu >= 1000
    assert settings.memory > 100
    assert list(settings.labels) == ["address"]
    assert settings.address == Address("nats://127.0.0.1:4222", "", "")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("run --name GPU_01", "write 1 to 63 of a-z, 0-9 and '-', such as gpu-01"),
        ("run --labels site", "write name=value"),
        ("run --address gpu/01", "write a name or an IPv4 address"),
        ("run --devices tpu", "write auto, nvml, amd, none or sim:8xH100-80GB"),
        ("run --devices sim:eight", "write sim:8xH100-80GB"),
        ("run --cpus many", "invalid amount of cpu"),
        ("run --memory 256", "has no unit"),
        ("run --keep forever", "invalid duration"),
        ("run --pass-env HEADRACE_NATS_PASSWORD", "cannot be passed on to jobs"),
        ("walk", "invalid choice"),
        ("", "required"),
    ],
)
def test_what_makes_no_sense_is_one_clear_line_and_exit_code_2(words, complaint, capsys) -> None:
    with pytest.raises(SystemExit) as error:
        parse(words.split(), {})
    assert error.value.code == 2
    assert complaint in capsys.readouterr().err


def shown(role, handle) -> dict[str, str]:
    payload = urlsafe_b64encode(json.dumps({"role": role, "handle": handle}).encode()).decode().rstrip("=")
    return {"HEADRACE_NATS_PASSWORD": f"e30.{payload}.c2ln"}


@pytest.mark.parametrize(
    ("role", "handle", "complaint"),
    [
        ("node", "gpu02", "the token in HEADRACE_NATS_PASSWORD is of node gpu02: say --name gpu02"),
        ("user", "gpu01", "the token in HEADRACE_NATS_PASSWORD is of user gpu01: give it a node's token"),
    ],
)
def test_a_token_of_another_name_is_refused_at_the_start(role, handle, complaint, tmp_path, capsys) -> None:
    words = f"run --name gpu01 --data {tmp_path} --devices none --run-as self".split()
    with pytest.raises(SystemExit) as left:
        parse(words, shown(role, handle))
    printed = capsys.readouterr().err.splitlines()[-1]
    assert (left.value.code, printed) == (
        2,
        f"headrace node: error: argument --name: this node is called gpu01, and {complaint}",
    )
    assert parse(words, shown("node", "gpu01")).name == "gpu01"


@pytest.mark.parametrize(
    ("host", "name"), [("GPU01.hq.example", "gpu01-hq-example"), ("a_b", "a-b"), ("...", "node"), ("x" * 80, "x" * 63)]
)
def test_a_node_is_called_after_its_host(host, name) -> None:
    assert node_name(host) == name
