"""The whole system with certificates of its own authority: nothing is said in the clear, and no peer is believed by accident."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from tests import commands
from tests.patience import PATIENCE

HEADRACE = (sys.executable, "-m", "headrace.cli")


def test_everything_is_reached_over_tls_by_those_who_believe_its_authority() -> None:
    with tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as folder:
        data = Path(folder) / "data"
        here = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")} | {
            "HEADRACE_DATA": str(data)
        }

        def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
            return commands.run(words, here | more)

        try:
            up = run("up", "--detach", "--dev-ca", "--nodes", "0")
            assert up.returncode == 0, up.stdout + up.stderr
            endpoint = json.loads((data / "endpoint.json").read_text())
            assert (endpoint["url"][:6], endpoint["api"][:8]) == ("tls://", "https://")
            token = run("token", "create", "--admin").stdout.strip()
            ca = str(data / "tls" / "ca.pem")
            another_place = {"HEADRACE_DATA": folder + "/none", "HEADRACE_SERVER": endpoint["api"], "HEADRACE_TOKEN": token}
            assert run("pools", **another_place, HEADRACE_CA=ca).stdout == "No pools; `headrace apply` makes them.\n"
            doubting = run("pools", **another_place)
            assert (doubting.returncode, doubting.stderr.count("\n")) == (1, 1)
            assert "its certificate is not trusted: " in doubting.stderr
            assert "set HEADRACE_CA to the file of its certificate authority" in doubting.stderr
            in_the_clear = run("pools", **another_place | {"HEADRACE_SERVER": endpoint["api"].replace("https", "http")})
            assert (in_the_clear.returncode, in_the_clear.stderr.count("\n")) == (1, 1)
            assert "it may take TLS, then write https://" in in_the_clear.stderr
            submit = ("submit", "--queue", "a/b", "--", "true")
            for url in (endpoint["url"], endpoint["url"].replace("tls", "nats")):
                doubting = run(*submit, **another_place | {"HEADRACE_URL": url})
                assert doubting.returncode == 1
                assert "a certificate that is not trusted here: set HEADRACE_CA" in doubting.stderr
            asked = urllib.request.Request(endpoint["api"] + "/v1/pools", headers={"authorization": f"Bearer {token}"})
            with urllib.request.urlopen(asked, context=ssl.create_default_context(cafile=ca), timeout=PATIENCE) as answer:
                assert answer.status == 200
        finally:
            run("down", "--now")


def test_nothing_listens_beyond_this_machine_in_the_clear(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*HEADRACE, "up", "--data", str(tmp_path), "--listen", "0.0.0.0"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith("headrace: --listen: beyond 127.0.0.1 TLS is required: --tls-cert and --tls-key, or --dev-ca")
