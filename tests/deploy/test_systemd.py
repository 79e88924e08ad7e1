"""systemd, booted in a container, with Debian's PostgreSQL: what README.md says is typed as it stands there, and then tried.

Two things are not as on the page: the password of the database is made up, and the executor's GPUs are simulated.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator

import pytest

from tests.deploy.images import BASE, HEADRACE, ROOT, Engine, missing

IMAGE, NAME = "localhost/headrace-systemd", "headrace-systemd"
BOOTED = f"""\
FROM {BASE}
RUN apt-get update && apt-get install --no-install-recommends --yes systemd systemd-sysv dbus postgresql
COPY --from={HEADRACE} /opt/headrace /opt/headrace
STOPSIGNAL SIGRTMIN+3
CMD ["/sbin/init"]
"""
WITHIN = 180.0
SERVICES = (
    *("admission", "governance", "accounting", "audit", "gateway", "allocator@1", "allocator@2"),
    *("preemption@1", "preemption@2", "feed@2", "provisioner@1", "provisioner@2", "callout@1", "callout@2"),
)
SIMULATED = "--devices sim:2xH100-80GB --cpus 32 --memory 256GiB"


def steps() -> list[str]:
    """The blocks of commands of the six steps, in their order, without the one for three servers."""
    page = (ROOT / "deploy/README.md").read_text("utf-8")
    part = page.partition("## In six steps")[2].partition("\n## ")[0]
    blocks = re.findall(r"^( *)```sh\n(.*?)^ *```$", part, flags=re.MULTILINE | re.DOTALL)
    texts = ["".join(line.removeprefix(indent) for line in block.splitlines(keepends=True)) for indent, block in blocks]
    return [text for text in texts if "tls://n1" not in text]


class Booted:
    """The machine. What is typed on it is root's, in the project's directory."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def type(self, text: str, *, check: bool = True) -> str:
        export = steps()[0]
        words = ("exec", "--workdir", "/src", NAME, "bash", "-ec", export + text)
        return self.engine.call(*words, within=WITHIN, check=check)

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN
        while not holds():
            if time.monotonic() > deadline:
                output = self.type("systemctl --failed; journalctl --no-pager --lines 60 --unit 'headrace*'", check=False)
                raise AssertionError(f"not within {WITHIN:g} s: {what}\n{output}")
            time.sleep(0.5)

    def states(self) -> dict[str, str]:
        status = self.type("headrace status --json", check=False)
        try:
            return {part["name"]: part["state"] for part in json.loads(status[: status.rindex("}") + 1])["parts"]}
        except ValueError:
            return {}

    def show(self, unit: str, what: str) -> str:
        return self.type(f"systemctl show --property {what} --value {unit}").strip()


@pytest.fixture(scope="module")
def machine() -> Iterator[Booted]:
    """Everything that the page says has been typed."""
    if reason := missing():
        pytest.fail(reason)
    engine = Engine()
    engine.headrace()
    engine.built(IMAGE, BOOTED)
    engine.call("rm", "--force", "--time=0", NAME, check=False)
    where = ("--hostname", "gpu01", "--volume", f"{ROOT}/deploy:/src/deploy:ro")
    engine.call("run", "--detach", "--name", NAME, "--systemd=always", "--privileged", *where, IMAGE)
    booted = Booted(engine)
    try:
        booted.until("it has booted", lambda: "running" in booted.type("systemctl is-system-running", check=False))
        role, database = "CREATE ROLE headrace LOGIN PASSWORD 'secret'", "CREATE DATABASE headrace OWNER headrace"
        booted.type(f'systemctl start postgresql; runuser -u postgres -- psql -qc "{role}" -c "{database}"')
        for block in steps()[1:]:
            *commands, last = block.strip().splitlines()
            if last == "headrace status":
                booted.type("\n".join(commands))
                booted.until(
                    "headrace status ends well", lambda: "rc=0" in booted.type("headrace status; echo rc=$?", check=False)
                )
            else:
                booted.type(block.replace("--labels site=hq\n", f"--labels site=hq {SIMULATED}\n"))
            if last == "headrace status":  # which asks the services; tokens take the gateway as well
                booted.until("the API answers", lambda: "rc=0" in booted.type("headrace nodes; echo rc=$?", check=False))
        yield booted
    finally:
        engine.call("rm", "--force", "--time=0", NAME, check=False)


def test_every_unit_is_active_and_was_started_again_only_to_give_way_to_its_other_instance(machine: Booted) -> None:
    units = ["nats-server.service", "headrace-node.service", *(f"headrace-{name}.service" for name in SERVICES)]
    logs = {unit: machine.type(f"journalctl --no-pager --lines 40 --unit {unit}") for unit in units}
    assert {unit: machine.show(unit, "ActiveState") for unit in units} == dict.fromkeys(units, "active")
    # Of two instances that begin in the same moment one may end with code 3, which is made for being started again.
    deposed = [unit for unit in units if '"event": "deposed"' in logs[unit] and "status=3" in logs[unit]]
    again = [unit for unit in units if machine.show(unit, "NRestarts") != "0" and unit not in deposed]
    assert again == [], "\n".join(logs[unit] for unit in again)
    assert machine.type("systemctl --failed --no-legend").strip() == ""


def test_every_service_runs_with_what_its_unit_takes_away(machine: Booted) -> None:
    def held(name: str) -> dict[str, str]:
        status = machine.type(f"cat /proc/{machine.show(f'headrace-{name}', 'MainPID')}/status")
        return {key: value.strip() for key, _, value in (line.partition(":") for line in status.splitlines()) if key in nothing}

    nothing = {"CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"}
    assert {name: held(name) for name in SERVICES} == dict.fromkeys(SERVICES, nothing)
    reach = "for path in /var/lib/nats /etc/nats/headrace-1.conf; do runuser -u headrace -- ls $path && echo reached; done"
    assert "reached" not in machine.type(reach, check=False)


def test_the_gateway_is_healthy(machine: Booted) -> None:
    ask = "python -c \"import urllib.request as r; print(r.urlopen('http://127.0.0.1:8080/healthz', timeout=5).status)\""
    assert machine.type(ask) == "200\n"


def test_the_timer_waits_for_the_night_and_when_its_hour_comes_the_archive_is_made_and_checked(machine: Booted) -> None:
    assert machine.show("headrace-archive.timer", "ActiveState") == "active"
    assert machine.show("headrace-archive.timer", "NextElapseUSecRealtime") != ""
    assert machine.show("headrace-archive.service", "ExecMainStartTimestamp") == ""
    now = "[Timer]\nOnCalendar=\nOnActiveSec=1s\nRandomizedDelaySec=0\n"
    change = "/run/systemd/system/headrace-archive.timer.d"
    machine.type(f"mkdir -p {change}; printf '{now}' > {change}/now.conf; systemctl daemon-reload")
    machine.type("systemctl restart headrace-archive.timer")
    ended = ("inactive", "success", "0")
    machine.until("the timer has run its unit", lambda: machine.show("headrace-archive.service", "ExecMainExitTimestamp") != "")
    machine.until("it has ended", lambda: machine.show("headrace-archive.service", "ActiveState") != "activating")
    assert (
        tuple(machine.show("headrace-archive.service", what) for what in ("ActiveState", "Result", "ExecMainStatus")) == ended
    )
    assert machine.type("ls /var/lib/headrace/archive").strip() != ""


def test_a_job_survives_the_restart_of_the_executor(machine: Booted) -> None:
    machine.until("the node is ready", lambda: '"ready"' in machine.type("headrace nodes --json", check=False))
    job = machine.type(
        "headrace submit --user alice --queue ai-dev/half -- sh -c 'until test -e /tmp/go; do sleep 0.2; done'"
    ).split()[0]
    machine.until("it runs", lambda: '"running"' in machine.type(f"headrace job --user alice --json {job}", check=False))
    before = machine.show("headrace-node", "MainPID")
    machine.type("systemctl restart headrace-node")
    assert machine.show("headrace-node", "MainPID") != before
    machine.type("touch /tmp/go")
    machine.until("it ends", lambda: '"succeeded"' in machine.type(f"headrace job --user alice --json {job}", check=False))
    assert len(json.loads(machine.type(f"headrace job --user alice --json {job}"))["job"]["attempts"]) == 1


def test_a_standby_takes_over_when_the_allocator_is_killed(machine: Booted) -> None:
    states = machine.states()
    active = "headrace-allocator@1" if states["allocator"] == "running" else "headrace-allocator@2"
    waiting = "allocator-standby" if active.endswith("1") else "allocator"
    machine.type(f"systemctl kill --signal KILL {active}")
    machine.until("the other one decides", lambda: machine.states().get(waiting) == "running")
    machine.type("headrace submit --user alice --queue ai-dev/half --wait -- true")


def test_stopping_the_target_stops_every_service(machine: Booted) -> None:
    machine.type("systemctl stop headrace.target")
    for name in SERVICES:  # the command waits for the target alone
        machine.until(f"{name} has stopped", lambda name=name: machine.show(f"headrace-{name}", "ActiveState") == "inactive")  # type: ignore[misc]
    machine.type("systemctl start headrace.target")
    machine.until("all is well again", lambda: "rc=0" in machine.type("headrace status; echo rc=$?", check=False))
