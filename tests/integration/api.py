"""One installation with two tenants, asked over HTTP by people with tokens."""

from __future__ import annotations

import http.client
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from headrace.host.layouts import DEFAULT, TOGETHER
from tests import commands
from tests.patience import PATIENCE

HEADRACE = (sys.executable, "-m", "headrace.cli")


LOOK_EVERY = 0.02


DOCUMENTS = {
    "tenants": [
        {"name": "acme", "admins": ["boss"], "shares": [{"pool": "hq", "reservation": {"gpu": 4}, "limit": {"gpu": 6}}]},
        {"name": "emca", "admins": ["chief"], "shares": [{"pool": "hq", "reservation": {"gpu": 2}, "limit": {"gpu": 8}}]},
    ],
    "groups": [
        {"tenant": "acme", "name": "dev", "members": ["alice"], "service_accounts": ["ci"], "on_behalf": ["ci"]},
        {"tenant": "emca", "name": "dev", "members": ["eve"]},
    ],
    "pools": [
        {"name": "hq", "selector": {"site": "hq"}, "price": {"gpu": "2.50"}},
        {"name": "vault", "selector": {"site": "vault"}, "access": {"allow": ["emca"]}},
    ],
    "profiles": [
        {"name": "half", "request": {"gpu": 0.5}, "pools": ["hq"]},
        {"name": "one", "request": {"gpu": 1}, "pools": ["hq"]},
    ],
    "policies": [
        {"tenant": "acme", "name": "dev", "group": "dev", "profiles": ["half"], "reservation": {"gpu": 2}, "limit": {"gpu": 4}},
        {"tenant": "emca", "name": "dev", "group": "dev", "profiles": ["half"], "reservation": {"gpu": 1}},
    ],
}


class Response(NamedTuple):
    """An answer over HTTP."""

    status: int
    body: Any
    headers: dict[str, str]

    @property
    def reason(self) -> str:
        return str(self.body["details"][0]["reason"])


class Api:
    """One installation, asked over HTTP with any token."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.tokens: dict[str, str] = {}
        self.address = ""
        self.issuers = ""
        self.model = "H100-80GB"
        self.layout = DEFAULT

    def run(self, *words: str, who: str = "", **variables: str) -> str:
        """The output of the command, as the owner of the machine or by a token; `variables`: more of the environment."""
        env = self.env() | ({"HEADRACE_TOKEN": self.tokens[who]} if who else {}) | variables
        ran = commands.run(words, env)
        assert ran.returncode == 0, (words, ran.stdout, ran.stderr)
        return ran.stdout

    def env(self) -> dict[str, str]:
        return os.environ | {"HEADRACE_DATA": str(self.data)}

    def up(self) -> None:
        self.data.mkdir(mode=0o700)
        (self.data / "installation.json").write_text(json.dumps({"host": "box", "labels": {"site": "hq"}}))
        if self.issuers:
            (self.data / "issuers.yaml").write_text(self.issuers)
        self.run("up", "--detach", "--gpus", "8", "--gpu-model", self.model, "--layout", self.layout, "--jobs-are-trusted")
        self.address = json.loads(self.run("status", "--json"))["api"]
        self.tokens["root"] = self.run("token", "create", "--admin", "root").strip()
        self.tokens["viewer"] = self.run("token", "create", "--viewer", "auditor").strip()

    def give_tokens(self, **tenants: str) -> None:
        """Make a token for each of these users of its tenant."""
        for user, tenant in tenants.items():
            self.tokens[user] = self.run("token", "create", "--user", user, "--tenant", tenant).strip()

    def ask(self, who: str, verb: str, path: str, body: object = None, **query: object) -> Response:
        """One request of `who`; `body` as JSON, or the very bytes."""
        where = path + (f"?{urlencode(query, doseq=True)}" if query else "")
        sent = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {self.tokens[who]}"} if who else {}
        connection = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=PATIENCE)
        try:
            connection.request(verb, where, sent, headers | ({"content-type": "application/json"} if sent else {}))
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        received = {key.lower(): value for key, value in answer.getheaders()}
        if text and received.get("content-type", "").startswith("application/json"):
            return Response(answer.status, json.loads(text), received)
        return Response(answer.status, text or None, received)

    def done(self, who: str, verb: str, path: str, body: object = None, **query: object) -> Any:
        response = self.ask(who, verb, path, body, **query)
        assert response.status == 200, response
        return response.body

    def submit(self, who: str, tenant: str, *commands: list[str], queue: str = "dev/half", **more: object) -> list[Any]:
        submission = {"queue": queue, "jobs": [{"command": command} for command in commands], "wait": True} | more
        return self.done(who, "POST", f"/v1/tenants/{tenant}/jobs:submit", submission)["jobs"]

    def until(self, who: str, job: str, state: str) -> Any:
        deadline = time.monotonic() + PATIENCE
        while (found := self.done(who, "GET", f"/v1/{job}"))["state"] != state:
            assert time.monotonic() < deadline, found
            time.sleep(LOOK_EVERY)
        return found


@contextmanager
def installation(issuers: str = "", model: str = "H100-80GB", layout: str = TOGETHER) -> Iterator[Api]:
    """A whole installation with the documents of these tests, until the block ends.

    `model`: of its simulated GPUs. `layout`: services that share one process start sooner; who starts one of them again needs `DEFAULT`.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as folder:
        made = Api(Path(folder) / "data")
        made.issuers, made.model, made.layout = issuers, model, layout
        try:
            made.up()
            made.done("root", "POST", "/v1/documents:apply", {"documents": DOCUMENTS, "reason": "the first day"})
            yield made
        finally:
            commands.run(("down", "--now"), made.env())


def until(condition: Callable[[], Any]) -> Any:
    """What the condition gives, as soon as that is true."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(LOOK_EVERY)
    return found
