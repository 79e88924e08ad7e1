"""Who has an address and a token, and nothing of the installation: the command line, and a plain NATS client (docs/elsewhere.md).

And a node on the machine of the installation that is newer than the start of its NATS server.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.client.endpoint import read_endpoint
from headrace.contracts.messages.tokens import inbox_prefix
from tests.integration.api import HEADRACE, Api, installation, until
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "deploy/examples/clients/submit.py"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with installation() as made:
        made.give_tokens(boss="acme", alice="acme")
        yield made


@pytest.fixture
def away(api: Api, tmp_path: Path) -> Api:
    """The same installation, which commands find by its address alone."""
    other = Api(tmp_path / "no-installation-here")
    other.tokens, other.address = api.tokens, api.address
    return other


def run(away: Api, *words: str, who: str) -> str:
    return away.run(*words, who=who, HEADRACE_SERVER=away.address)


def test_a_document_without_a_tenant_is_of_the_tenant_of_its_administrator(away: Api, tmp_path: Path) -> None:
    file = tmp_path / "groups.yaml"
    file.write_text(
        "groups: [{name: science, members: [ann]}]\npolicies: [{name: sci, group: science, profiles: [half], limit: {gpu: 1}}]\n"
    )
    assert run(away, "apply", "-f", str(file), who="boss").splitlines()[:2] == ["+ group acme/science", "+ policy acme/sci"]
    assert "sci/half" in run(away, "queues", who="boss")
    assert run(away, "delete", "policy", "sci", who="boss").startswith("- policy acme/sci\n")


def test_the_administrator_of_a_tenant_makes_lists_and_revokes_its_tokens_by_command(away: Api) -> None:
    assert run(away, "token", "create", "--user", "alice", who="boss").count(".") == 2
    listed = [line.split()[1:4] for line in run(away, "token", "list", who="boss").splitlines()[1:]]
    assert {tuple(line) for line in listed} == {("user", "acme", "alice"), ("user", "acme", "boss")}
    assert run(away, "token", "create", "--service-account", "ci", who="boss")
    assert run(away, "token", "revoke", "--service-account", "ci", who="boss") == "acme/ci is revoked\n"


def test_a_person_with_a_token_submits_looks_and_reads(away: Api) -> None:
    output = run(away, "submit", "--queue", "dev/half", "--name", "hello", "--wait", "--", "echo", "hello", who="alice")
    assert output.splitlines()[1:] == ["hello"]
    assert run(away, "logs", "hello", who="alice") == "hello\n"


@pytest.mark.parametrize(
    ("queue", "expected"),
    [
        ("dev/half", ("job.ended.v1", {"state": "failed", "exit_code": 3})),
        ("dev/no", ("job.rejected.v1", {"reason": "UNKNOWN_QUEUE"})),
    ],
)
def test_the_example_for_a_plain_nats_client_submits_and_hears_how_a_job_ended(
    api: Api, queue: str, expected: tuple[str, dict[str, object]]
) -> None:
    endpoint = read_endpoint(api.data)
    assert endpoint is not None
    environment = {"HEADRACE_URL": endpoint.url, "HEADRACE_TOKEN": api.tokens["alice"]}
    command = [sys.executable, "-I", str(CLIENT), queue, "sh", "-c", "exit 3"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    job, fact = done.stdout.splitlines()
    published = json.loads(fact)
    kind, fields = expected
    assert (published["type"], published["job"], {key: published[key] for key in fields}) == (kind, f"acme.alice.{job}", fields)


def test_the_prefix_of_answers_is_what_the_page_computes_in_a_shell(api: Api) -> None:
    hashed = subprocess.run(["b2sum", "-l", "128"], input=api.tokens["alice"].encode(), capture_output=True, check=True).stdout
    assert inbox_prefix("acme_alice", api.tokens["alice"]) == f"_INBOX_t_{hashed.split()[0].decode()}"


def test_a_node_with_a_new_name_joins_on_the_installations_machine_without_a_restart(api: Api) -> None:
    def nodes() -> dict[str, str]:
        return {node["name"]: node["state"] for node in json.loads(api.run("nodes", "--json"))}

    words = ("node", "run", "--name", "new", "--labels", "site=lab", "--devices", "sim:1xH100-80GB", "--limits", "off")
    with subprocess.Popen([*HEADRACE, *words, "--on-stop", "end"], env=api.env(), stderr=subprocess.DEVNULL) as executor:
        try:
            until(lambda: nodes().get("new") == "ready")
            shown = {node["name"]: node for node in json.loads(api.run("nodes", "--json"))}["new"]
            assert shown["labels"]["site"] == "lab"
        finally:
            executor.terminate()
