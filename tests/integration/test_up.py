"""The whole system on one machine, as people start it: real NATS, real PostgreSQL, every service its own process, real jobs."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import urllib.request

from headrace.client import connect
from headrace.supervisor.network.ports import LOOPBACK
from tests.integration.machine import HEADRACE, Machine
from tests.patience import PATIENCE

PARTS = (
    "nats-server",
    "postgres",
    "admission",
    "allocator",
    "preemption",
    "governance",
    "feed",
    "provisioner",
    "accounting",
    "audit",
    "callout-1",
    "callout-2",
    "gateway",
    "node-box",
)


def test_a_day_with_it(place: Machine) -> None:
    place.up()
    level = json.loads(place.done("status", "--json"))["level"]
    assert (level["stated"], level["held_back"]) == (level["newest"], [])  # so the first document may use all keys
    applied = place.done("apply", "-f", place.documents)
    assert re.search(r"\nApplied as revision \d+\.\n$", applied)  # the node and the level have records of their own

    waited = place.run("submit", "--queue", "rnd/one", "--user", "alice", "--wait", "--", "sh", "-c", "echo hello; exit 3")
    job, *output = waited.stdout.splitlines()
    assert (waited.returncode, output, waited.stderr) == (3, ["hello"], f"headrace: {job} failed: exit code 3\n")
    assert place.done("logs", job) == "hello\n"

    long = place.submit("echo begins; sleep 600", "--name", "long")
    place.until(lambda: place.done("logs", long) == "begins\n")
    for named in ("long", long[:20], "last"):
        assert place.done("logs", named, "--user", "alice") == "begins\n"
    assert [one["id"] for one in json.loads(place.done("jobs", "--since", "1h", "--json"))] == [long, job]
    assert place.done("jobs", "--since", "2100-01-01") == "No jobs.\n"
    assert (
        place.run("job", long[:5]).stderr
        == f"headrace: job: several ids begin with {long[:5]}: {long} {job}; write more of it\n"
    )
    words = ("submit", "--data", str(place.data), "--queue", "")
    offered = subprocess.run([*HEADRACE, "completion", "bash", "--words", *words], capture_output=True, text=True, check=True)
    assert offered.stdout == "rnd/one\n"
    second, third = place.submit("sleep 600"), place.submit("sleep 600", "--name", "waits")
    place.until_state(second, "running")
    why = json.loads(place.done("why", third, "--json"))
    assert (why["state"], why["reason"]) == ("pending", "AT_POLICY_LIMIT")
    assert place.done("requeue", second) == f"{second} is stopped, with time to save its work, and put back into the queue\n"
    place.until(
        lambda: [one["cause"] for one in json.loads(place.done("job", second, "--json"))["job"]["attempts"]] == ["requeued", ""]
    )
    assert place.run("requeue", third).stderr == f"headrace: {third} is pending already\n"
    for command in ("queues", "pools", "nodes", "jobs"):
        assert place.done(command)
        assert json.loads(place.done(command, "--json"))

    following = place.start("logs", long, "-f")
    sweep = place.submit("sleep 600", "--name", "sweep", "--count", "40", "--label", "run=7").split()
    assert place.run("cancel", "--user", "alice", "--name", "sweep-*").stderr.startswith(
        "headrace: 40 jobs (40 pending) will be"
    )
    what = place.done("cancel", long, second, third, *sweep)
    assert what == "".join(f"{job} will end\n" for job in (long, second, third, *sweep))
    assert following.communicate(timeout=PATIENCE)[0] == "begins\n"
    for name in (long, second):
        place.until_state(name, "cancelled")
    swept = json.loads(place.done("jobs", "--name", "sweep-*", "--label", "run=7", "--json"))
    states = [(job["state"], job["attempts"]) for job in [*swept, place.job(third)]]
    assert states == [("cancelled", [])] * 41  # none of them has started meanwhile
    last = place.submit("sleep 600", "--name", "last")
    place.until_state(last, "running")
    assert place.done("cancel", "--name", "las?", "--owner", "alice", "--yes") == "1 job (1 running) will end\n"
    place.until_state(last, "cancelled")
    assert place.run("cancel", long).stderr == f"headrace: {long} has ended already: it is cancelled\n"

    place.until(lambda: "rnd" in place.done("usage", "--by", "group"))
    assert sorted(place.parts()) == sorted(PARTS)
    assert all(part["state"] == "running" and not part["restarts"] for part in place.parts().values())
    assert place.done("down").endswith("Stopped.\n")
    place.until(lambda: place.processes() == [])
    assert place.run("jobs").stderr.startswith("headrace: the API does not answer at ")


def test_what_is_refused_is_one_line_with_the_way_out(shared: Machine) -> None:
    refused = shared.run("submit", "--queue", "rnd/one", "--user", "eve", "--", "true")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    assert "was rejected: NOT_ALLOWED: eve is not in group rnd" in refused.stderr
    unknown = shared.run("submit", "--queue", "rnd/two", "--user", "alice", "--", "true")
    assert "was rejected: UNKNOWN_QUEUE" in unknown.stderr
    again = shared.run("up")
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert "Headrace runs already on" in again.stderr
    for command in (("job", "01jd3v8k5w2m4x6z8b0c2e4g6h"), ("delete", "pool", "onprem"), ("get", "pool", "nope")):
        ran = shared.run(*command)
        assert (ran.returncode, ran.stdout, ran.stderr.count("\n")) == (1, "", 1), ran.stderr


def test_a_taken_port_is_one_line_and_leaves_nothing_behind(place: Machine) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        ran = place.run("up", "--nats-port", str(port))
    assert ran.returncode == 1
    assert (
        ran.stderr == f"headrace: --nats-port: port {port} is taken; name another, or leave it out and a free one is chosen\n"
    )
    place.until(lambda: place.processes() == [])


def test_whatever_is_killed_comes_back_and_loses_nothing(shared: Machine) -> None:
    before = shared.submit(shared.goes_on_until_released)
    shared.until_state(before, "running")
    killed = [name for name in PARTS if name != "node-box"]  # a test of its own
    first = shared.parts()
    for pid in {first[name]["pid"] for name in killed}:
        os.kill(pid, signal.SIGKILL)

    def repaired() -> bool:
        now = shared.parts()
        return all(
            now[name]["state"] == "running" and now[name]["restarts"] > first[name]["restarts"] and not now[name].get("lag")
            for name in killed
        )

    shared.until(repaired)
    shared.released.touch()
    shared.until_state(before, "succeeded")
    assert shared.done("logs", before) == "survived\n"
    assert len(shared.job(before)["attempts"]) == 1
    assert shared.run("submit", "--queue", "rnd/one", "--user", "alice", "--wait", "--", "true").returncode == 0


def test_a_job_whose_executor_is_killed_runs_on(shared: Machine) -> None:
    job = shared.submit(shared.goes_on_until_released)
    shared.until_state(job, "running")
    os.kill(shared.parts()["node-box"]["pid"], signal.SIGKILL)
    shared.released.touch()
    shared.until_state(job, "succeeded")
    assert shared.done("logs", job) == "survived\n"
    assert len(shared.job(job)["attempts"]) == 1


def test_a_second_up_on_the_same_data_goes_on_where_the_first_ended(place: Machine) -> None:
    place.up()
    place.done("apply", "-f", place.documents)
    job = place.submit('test "$HEADRACE_ATTEMPT" = 2 || sleep 60', "--name", "long")
    place.until_state(job, "running")
    url = json.loads(place.done("status", "--json"))["url"]
    place.done("down")
    place.up()
    assert json.loads(place.done("status", "--json"))["url"] == url
    place.until_state(job, "succeeded")
    view = place.job(job)
    assert (view["name"], [attempt["attempt"] for attempt in view["attempts"]]) == ("long", [1, 2])


def test_ctrl_c_stops_everything_in_order(place: Machine) -> None:
    process = place.start("up", "--nodes", "0")
    output = []
    assert process.stdout is not None
    for line in process.stdout:
        output.append(line)
        if "stops everything" in line:
            break
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (output, rest)
    order = [line.split()[1].strip(",") for line in rest.splitlines() if line.split()[:1] == ["stopping"]]
    assert order == ["gateway", "admission", "postgres", "nats-server"]
    assert rest.endswith("Stopped.\n")
    place.until(lambda: place.processes() == [])


def test_a_start_in_the_background_that_is_ended_before_it_is_ready_leaves_nothing_behind(place: Machine) -> None:
    process = place.start("up", "--detach", "--nodes", "0")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("Headrace in ")
    process.terminate()
    process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    place.until(lambda: place.processes() == [])
    assert "is not up" in place.done("down")


def test_nothing_outlives_a_supervisor_that_is_killed(place: Machine) -> None:
    place.up()
    pid = json.loads(place.done("status", "--json"))["pid"]
    os.kill(pid, signal.SIGKILL)
    place.until(lambda: place.processes() == [])
    assert "is not up" in place.run("status").stderr


async def test_a_program_submits_watches_and_waits(shared: Machine) -> None:
    async with connect(data=shared.data, user="alice") as hr:
        job = await hr.submit("rnd/one", ["sh", "-c", "sleep 1"], name="watched")
        story = [fact.type async for fact in hr.watch(job.id)]
        view = await hr.wait(job.id)
    assert (view.state, view.exit_code, view.name) == ("succeeded", 0, "watched")
    assert story[-1] == "job.ended.v1"
    assert "lease.ended.v1" in story  # the start may have come before the watch, which tells what happens from then on


async def test_a_submit_waits_for_a_nats_server_that_is_started_again(shared: Machine) -> None:
    words = (*HEADRACE, "token", "create", "--user", "alice", "--data", str(shared.data))
    token = (await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, check=True)).stdout.strip()
    api = json.loads(await asyncio.to_thread(shared.done, "status", "--json"))["api"]
    body = json.dumps({"queue": "rnd/one", "jobs": [{"command": ["true"]}]}).encode()
    head = {"authorization": f"Bearer {token}", "content-type": "application/json"}

    def over_http() -> str:
        request = urllib.request.Request(f"{api}/v1/tenants/default/jobs:submit", body, head)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return str(json.loads(answer.read())["jobs"][0]["name"]).rpartition("/")[2]

    pid = (await asyncio.to_thread(shared.parts))["nats-server"]["pid"]
    async with connect(data=shared.data, user="alice") as hr:
        os.kill(pid, signal.SIGKILL)
        by_http, by_nats = await asyncio.gather(asyncio.to_thread(over_http), hr.submit("rnd/one", ["true"]))
        for job in (by_http, by_nats.id):
            assert (await hr.wait(job)).state == "succeeded"
