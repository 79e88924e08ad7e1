"""What starts services elsewhere starts what there is: units, containers and charts name modules, files and ports that are real."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from headrace.host.layouts import SHARING
from headrace.supervisor.cluster.cluster_config import ClusterConfig, environments
from headrace.supervisor.installation import Installation
from tests.architecture.command_words import understood
from tests.architecture.tree import ROOT, sources

DEPLOY = Path(ROOT, "deploy")
UNITS = sorted(path for path in (DEPLOY / "systemd").iterdir() if path.suffix != ".conf")
SERVICE_UNITS = [unit for unit in UNITS if unit.suffix == ".service"]
CHART = DEPLOY / "helm/headrace"
OURS = {"headrace", "python", "envoy", "nats-server"}
HARDENED = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "CapabilityBoundingSet": "",
    "UMask": "0077",
}


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> dict[str, dict[str, str]]:
    """The environments that `headrace config write` writes, by name."""
    installation = Installation(tmp_path_factory.mktemp("elsewhere"))
    installation.prepare()
    return environments(installation, ClusterConfig(nats=("nats://127.0.0.1",), postgres="x", metrics="0.0.0.0"))


def modules() -> set[str]:
    return {path.split("/")[-2] for path in sources() if path.startswith("services/") and path.endswith("/__main__.py")}


def settings(unit: Path) -> list[tuple[str, str]]:
    return [
        (key, value)
        for key, equals, value in (line.partition("=") for line in unit.read_text("utf-8").splitlines())
        if equals and not key.startswith("#")
    ]


def check_command(words: list[str]) -> None:
    """That a command is of a program we ship, with a module or arguments that it has."""
    program = words[0].rpartition("/")[2]
    assert program in OURS, words
    if program == "python":
        assert words[1:3] == ["-P", "-m"]
        assert words[3].removeprefix("headrace.") in modules()
        assert set(words[4:]) <= set(SHARING)
    if program == "headrace":
        assert understood(words[1:]), words
    if program == "envoy":
        assert words[1:3] == ["--config-path", "/var/lib/headrace/gateway/envoy.json"]


@pytest.mark.parametrize("unit", SERVICE_UNITS, ids=lambda unit: unit.stem)
def test_a_unit_runs_what_there_is_with_an_environment_that_is_written(unit, written):
    entries = settings(unit)
    for key, value in entries:
        if key == "ExecStart":
            check_command(value.split())
        if key == "Environment" and value.startswith("HEADRACE_ENVIRONMENT__"):
            service, _, file = value.removeprefix("HEADRACE_ENVIRONMENT__").partition("=")
            assert service.lower() in dict(entries)["ExecStart"].split()
            assert file.rpartition("/")[2].removesuffix(".env") in written
        if key == "EnvironmentFile" and value.startswith("/var/lib/headrace/"):
            name = value.rpartition("/")[2].removesuffix(".env")
            assert {name.replace("%i", "1"), name.replace("%i", "2")} <= set(written)
    if unit.stem != "headrace-node":  # which gives jobs devices, accounts and limits
        own = dict(entries)
        assert {key: own.get(key) for key in HARDENED} == HARDENED
        envoy = unit.stem == "headrace-gateway"  # its allocator calls mincore, for which the kernel would end it
        assert own["SystemCallFilter"] == ("@system-service mincore" if envoy else "@system-service")
        assert own["User"] in accounts()
        if "headrace.target" in own.get("WantedBy", ""):
            assert own["PartOf"] == "headrace.target"  # so that stopping the target stops it
        for path in own["ReadWritePaths"].split():
            assert path in (
                "/var/lib/nats",
                "/var/lib/headrace",
                "/var/lib/headrace/gateway",
            )  # which are there before the start


def accounts() -> set[str]:
    return {
        line.split()[1] for line in (DEPLOY / "systemd/sysusers.conf").read_text("utf-8").splitlines() if line.startswith("u ")
    }


def test_the_steps_of_the_readme_make_the_accounts_and_directories_that_the_units_need():
    steps = (
        (DEPLOY / "README.md").read_text("utf-8").partition("## In six steps")[2].partition("## Environment of a process")[0]
    )
    made = {
        tuple(line.split()[1:5])
        for line in (DEPLOY / "systemd/tmpfiles.conf").read_text("utf-8").splitlines()
        if line.startswith("d ")
    }
    assert made == {
        ("/etc/headrace", "0750", "root", "headrace"),
        ("/etc/nats", "0750", "root", "nats"),
        ("/var/lib/headrace", "0700", "headrace", "headrace"),
    }
    assert accounts() == {"headrace", "nats"}
    writing = [line.strip() for line in steps.splitlines() if line.strip().startswith(("headrace config", "runuser"))]
    assert [line.partition(" -- ")[0] for line in writing] == [
        "runuser -u headrace"
    ] * 3  # what they write belongs to the services
    for unit in UNITS:
        assert unit.name == "nats-server.service" or unit.stem in steps or unit.suffix in steps, unit.name


def test_every_environment_that_is_written_has_its_unit(written):
    names = {unit.name for unit in UNITS}
    for name in written:
        service, at, _ = name.partition("@")
        assert f"headrace-{service}{at}.service" in names


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")
def test_systemd_itself_takes_the_units():
    done = subprocess.run(
        ["systemd-analyze", "verify", *map(str, UNITS)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    of_ours = [line for line in done.stderr.splitlines() if "headrace" in line or "nats-server" in line]
    assert [line for line in of_ours if "is not executable" not in line] == []  # /opt/headrace is not here


def test_every_container_of_compose_runs_what_there_is(written):
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
    parts, used = compose["services"], set()
    for name, part in parts.items():
        if "command" in part:
            words = part["command"]
            check_command(words[2].strip().rpartition("exec ")[2].split() if words[0] == "sh" else words)
        assert set(part.get("depends_on") or ()) <= set(parts)
        volumes = {volume.partition(":")[0] for volume in part["volumes"]}
        assert volumes <= set(compose["volumes"]), name
        files = {key: value for key, value in part.get("environment", {}).items() if key.startswith("HEADRACE_ENVIRONMENT")}
        owns = [file.rpartition("/")[2].removesuffix(".env") for file in files.values()]
        if len(owns) == 1:
            assert part["command"][-1] == f"headrace.{owns[0].partition('@')[0]}"
        elif owns:
            hosted = [own.partition("@")[0] for own in owns]
            assert part["command"][-1 - len(hosted) :] == ["headrace.host", *hosted]
            assert list(files) == [f"HEADRACE_ENVIRONMENT__{name.upper()}" for name in hosted]
        if owns:
            assert f"http://127.0.0.1:{port_of(written[owns[0]])}/livez" in part["healthcheck"]["test"][-1]
            used.update(owns)
    assert used == set(written)
    published = {name: part["ports"] for name, part in parts.items() if "ports" in part}
    assert published == {
        "gateway": ["127.0.0.1:${HEADRACE_API_PORT:-8080}:8080"],
        "nats": ["${HEADRACE_LISTEN:-127.0.0.1}:${HEADRACE_NATS_PORT:-4222}:4222"],
    }
    assert {"--listen=0.0.0.0:8080", "--nats=tls://nats:4222", "--dev-ca"} <= set(parts["write"]["command"])


def port_of(environment: dict[str, str]) -> int:
    return int(environment["HEADRACE_METRICS"].rpartition(":")[2])


def test_the_chart_runs_each_part_with_its_environment_and_port(written):
    values = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    assert {part["environment"]: part["port"] for part in values["parts"]} == {
        name: port_of(environment) for name, environment in written.items()
    }
    assert {part["environment"] for part in values["parts"] if part.get("standby")} == {
        "allocator@2",
        "preemption@2",
        "feed@2",
        "provisioner@2",
    }
    for part in values["parts"]:
        assert part["module"] in modules()


TEMPLATES = sorted((CHART / "templates").rglob("*.yaml"))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.stem)
def test_a_template_asks_for_values_that_there_are_and_runs_what_there_is(template):
    """Helm itself renders the chart in `make test-chart`; this says the same of names within a second."""
    text, values = template.read_text("utf-8"), yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
    for path in set(re.findall(r"\.Values\.([A-Za-z.]+)", text)):
        found = values
        for key in path.split("."):
            assert key in found, path
            found = found[key]
    filled = re.sub(r"\{\{.*?\}\}", "USD", text)
    for words in map(
        yaml.safe_load, re.findall(r"command: (\[(?:headrace|envoy|python)[^\n]*\])$", filled, flags=re.MULTILINE)
    ):
        if words[0] == "python":
            assert words[1] == "-c" or words[:3] == ["python", "-P", "-m"]
            assert words[1] == "-c" or words[3] == "headrace.USD" or words[3].removeprefix("headrace.") in modules()
        else:
            check_command(words)


def test_the_image_has_what_is_installed_and_what_the_wheel_is_built_from_and_nothing_else():
    lines = Path(ROOT, ".dockerignore").read_text("utf-8").split()
    copied = re.findall(r"^COPY (\S+) \S+$", (DEPLOY / "Dockerfile").read_text("utf-8"), flags=re.MULTILINE)
    assert lines[0] == "*"
    assert [f"!{name}" for name in copied] == [line for line in lines if line.startswith("!")]
    assert all(Path(ROOT, name).exists() for name in copied)
    page = re.findall(r'^RULES = "(.+)"$', Path(ROOT, "hatch_build.py").read_text("utf-8"), flags=re.MULTILINE)
    assert page == [name for name in copied if name.startswith("docs/")]


def test_every_file_that_the_page_for_operators_names_is_there():
    text = (DEPLOY / "README.md").read_text("utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert [link for link in links if not (DEPLOY / link).exists()] == []
    named = {name.partition("__")[0] for name in re.findall(r"HEADRACE_[A-Z_]+[A-Z]", text)}
    known = {word for path in sources() for word in re.findall(r"\"(HEADRACE_[A-Z_]+)\"", Path(ROOT, path).read_text("utf-8"))}
    assert (
        named
        - known
        - {
            "HEADRACE_TOKEN",  # people's own
            "HEADRACE_COMPILED",  # for the build
            "HEADRACE_NODE_ARGUMENTS",  # for the unit
            "HEADRACE_LISTEN",  # for Compose
            "HEADRACE_REACHED_AS",
        }
        == set()
    )
