"""`make test-api`: several thousand requests that schemathesis makes up from the served OpenAPI document, against a whole installation.

Every check of schemathesis but one: `positive_data_acceptance` asks that whatever fits the schema is accepted, and that a queue exists,
a filter names fields, a reservation can be honoured, no schema says. The watch of jobs is left out, because it does not end by itself.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

DOCUMENTS = """
tenants: [{name: acme, admins: [boss]}]
groups: [{tenant: acme, name: dev, members: [alice], service_accounts: [ci]}]
pools: [{name: onprem, selector: {site: hq}}]
profiles: [{name: half, request: {gpu: 0.5}, pools: [onprem]}]
policies: [{tenant: acme, name: dev, group: dev, profiles: [half], reservation: {gpu: 1}}]
"""
CALLERS = (("--admin", "root"), ("--user", "boss", "--tenant", "acme"))
EXAMPLES = "40"


def headrace(*words: str) -> str:
    """The output of the command, which has to succeed."""
    done = subprocess.run([sys.executable, "-m", "headrace.cli", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"headrace {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def attack(schemathesis: str, api: str, token: str) -> int:
    """One run as one caller; schemathesis' own exit code."""
    command = (
        *(schemathesis, "run", f"{api}/openapi.json", "--header", f"Authorization: Bearer {token}"),
        *("--max-examples", EXAMPLES, "--phases", "examples,coverage,fuzzing", "--mode", "all", "--request-timeout", "20"),
        *("--exclude-checks", "positive_data_acceptance", "--exclude-path-regex", "jobs:watch$"),
        *("--continue-on-failure", "--no-shrink", "--warnings", "off", "--no-color"),
    )
    return subprocess.run(command, check=False).returncode


def main() -> int:
    """Start everything, attack it as each caller, and see that it is still well."""
    (schemathesis,) = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as folder:
        os.environ["HEADRACE_DATA"] = str(Path(folder) / "data")
        headrace("up", "--detach", "--gpus", "8", "--jobs-are-trusted")
        try:
            documents = Path(folder) / "documents.yaml"
            documents.write_text(DOCUMENTS, encoding="utf-8")
            headrace("apply", "-f", str(documents))
            api = json.loads(headrace("status", "--json"))["api"]
            tokens = [headrace("token", "create", *caller).strip() for caller in CALLERS]
            codes = [attack(schemathesis, api, token) for token in tokens]
            parts = json.loads(headrace("status", "--json"))["parts"]
            restarted = [part["name"] for part in parts if part["restarts"]]
            if restarted:
                print(f"these died meanwhile: {', '.join(restarted)}", file=sys.stderr)
            return max([*codes, len(restarted)])
        finally:
            headrace("down", "--now")


if __name__ == "__main__":
    raise SystemExit(main())
