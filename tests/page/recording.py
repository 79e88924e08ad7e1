"""`python -m tests.page.recording` plays a story on an installation and writes what the API answers to the page into `recorded.json`.

The pictures of the documentation are made from that (`test_pictures`), so they change only if the page changes, or if this is played again:
after a change of the API that the page reads.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from playwright.sync_api import Page, Response, sync_playwright

from tests.integration.api import Api, until
from tests.page.replaying import RECORDED, WATCH, Recorded, key_of, looking

GROUPS = {"research": ["alice", "bob", "mia"], "vision": ["carol", "dave"], "speech": ["erin"], "platform": ["frank"]}
RESERVED = {"research": (8, 20), "vision": (8, 16), "speech": (4, 8), "platform": (2, 3)}
PROFILES = {"half": "0.5", "one": "1", "four": "4", "eight": "8"}
DOCUMENTS = {
    "groups": [{"name": name, "members": members} for name, members in GROUPS.items()],
    "pools": [{"name": "onprem", "selector": {"site": "hq"}, "price": {"gpu": "2.40"}}],
    "profiles": [{"name": name, "request": {"gpu": gpu}, "pools": ["onprem"]} for name, gpu in PROFILES.items()],
    "policies": [
        {"name": name, "group": name, "profiles": [*PROFILES], "reservation": {"gpu": inside}, "limit": {"gpu": most}}
        for name, (inside, most) in RESERVED.items()
    ],
}
ACTS = (
    (
        ("alice", "research/four", "pretrain", 3),
        ("bob", "research/one", "ablation", 6),
        ("mia", "research/half", "notebook", 3),
    ),
    (("carol", "vision/four", "detector", 2), ("dave", "vision/eight", "segment", 1)),
    (("erin", "speech/one", "asr", 6), ("frank", "platform/half", "bench", 3)),
)
"""What is submitted together: user, queue, name, and how many. The second and the third act take back what the first has borrowed."""
COMMAND = "trap 'sleep 1; exit 0' TERM; while :; do sleep 0.2; done"
LINES = 3
MODEL = "H100-80GB+busy62"


def play(api: Api) -> None:
    """Submit each act once what the one before led to has settled."""
    api.done("root", "POST", "/v1/documents:apply", {"documents": DOCUMENTS, "reason": "the first day"})
    for act in ACTS:
        for user, queue, name, count in act:
            jobs = [{"command": ["sh", "-c", COMMAND], "name": f"{name}-{number}"} for number in range(1, count + 1)]
            api.done(
                "root", "POST", "/v1/tenants/default/jobs:submit", {"queue": queue, "user": user, "jobs": jobs, "wait": True}
            )
        until(lambda: settled(api))


def settled(api: Api) -> bool:
    states = [job["state"] for job in api.done("root", "GET", "/v1/tenants/default/jobs", page_size=1000)["jobs"]]
    ended = all("settle_time" in one for one in api.done("root", "GET", "/v1/preemptions").get("preemptions", []))
    return ended and "running" in states and set(states) <= {"running", "pending"}


def watched(api: Api) -> list[Any]:
    """The first lines of the stream, which have the overview, the events and the loads of the devices."""
    request = urllib.request.Request(api.address + WATCH, headers={"authorization": f"Bearer {api.tokens['root']}"})
    with urllib.request.urlopen(request) as answer:
        return [json.loads(answer.readline()) for _ in range(LINES)]


def visit(page: Page, screens: dict[str, str]) -> dict[str, Any]:
    """Every answer that the screens ask for."""
    answers: dict[str, Any] = {}

    def note(answer: Response) -> None:
        url, request = urlsplit(answer.url), answer.request
        if url.path.startswith("/v1/") and url.path != WATCH and answer.ok:
            address = url.path + (f"?{url.query}" if url.query else "")
            answers[key_of(request.method, address, request.post_data_buffer or b"")] = answer.json()

    page.on("response", note)
    page.reload()
    for screen in ("now", *screens.values()):
        page.evaluate("screen => { location.hash = '#/' + screen }", screen)
        page.wait_for_timeout(8000)
    return answers


@contextmanager
def three_nodes() -> Iterator[Api]:
    """An installation with three simulated nodes of 8 GPUs, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as folder:
        api = Api(Path(folder) / "data")
        api.data.mkdir(mode=0o700)
        (api.data / "installation.json").write_text(json.dumps({"host": "node", "labels": {"site": "hq"}}))
        try:
            api.run("up", "--detach", "--nodes", "3", "--gpus", "8", "--gpu-model", MODEL, "--jobs-are-trusted")
            api.address = json.loads(api.run("status", "--json"))["api"]
            api.tokens["root"] = api.run("token", "create", "--admin", "root").strip()
            yield api
        finally:
            api.run("down", "--now")


def main() -> None:
    with three_nodes() as api, sync_playwright() as playwright:
        play(api)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        *_, first = api.done("root", "GET", "/v1/preemptions")["preemptions"]
        screens = {"now": "now", "preemption": first["name"], "whatif": "whatif/default/speech=6,8"}
        now = datetime.now(UTC)
        with looking(browser, api.address, now, api.tokens["root"]) as page:
            recorded = Recorded(now, screens, watched(api), visit(page, screens))
        RECORDED.write_bytes(msgspec.json.format(msgspec.json.encode(recorded, order="sorted"), indent=0) + b"\n")


if __name__ == "__main__":
    main()
