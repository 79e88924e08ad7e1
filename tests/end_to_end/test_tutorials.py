"""Every command of the tutorials works when it is pasted, in the order of the pages, on one installation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("user", "tenant-administrator", "operator", "auditor", "contributor")


def script(page: str) -> str:
    """The commands of a tutorial, as a shell that ends at the first failure would read them."""
    blocks = re.findall(
        r"^```sh\n(.*?)^```", (ROOT / "docs/tutorials" / f"{page}.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert blocks
    ours = f'headrace() {{ "{sys.executable}" -m headrace.cli "$@"; }}; python() {{ "{sys.executable}" "$@"; }}'
    return "\n".join(("set -euo pipefail", ours, *blocks))


def test_every_page_is_run():
    assert sorted(PAGES) == sorted(path.stem for path in (ROOT / "docs/tutorials").glob("*.md"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a reader types: what the pages name of the repository is there, what they write is not left in it."""
    made = tmp_path / "reader"
    made.mkdir()
    made.chmod(0o755)
    for name in ("deploy", "tests"):
        (made / name).symlink_to(ROOT / name)
    return made


def test_every_command_of_the_tutorials_works_when_pasted(headrace, environment, folder):
    environment["HEADRACE_SEAL_EVERY"] = "5s"  # the auditor's page waits for the first seal
    assert headrace("up", "--detach").returncode == 0
    for page in PAGES:
        done = subprocess.run(
            ["bash", "-c", script(page)], cwd=folder, capture_output=True, text=True, env=environment, check=False, timeout=240
        )
        assert done.returncode == 0, (page, done.stdout[-2_000:], done.stderr[-2_000:])
