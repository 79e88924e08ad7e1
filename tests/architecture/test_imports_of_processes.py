"""What the processes of services load before they are asked for anything."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROCESSES = sorted(
    path.parent.name
    for part in ("services", "node-executor")
    for path in (ROOT / part / "headrace").glob("*/__main__.py")
    if path.parent.name
    not in {"cli", "simulate", "kubernetes"}  # two end with their command; the bridge's own library loads rich
)
LOADED = """
import importlib, sys
importlib.import_module(sys.argv[1])
print(*{name.partition(".")[0] for name, module in sys.modules.items() if module is not None})
"""


@pytest.mark.parametrize("name", PROCESSES)
def test_a_process_loads_what_draws_on_terminals_and_writes_metrics_only_when_it_is_needed(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-P", "-c", LOADED, f"headrace.{name}.__main__"], capture_output=True, text=True, check=True
    )
    loaded = set(ended.stdout.split())
    assert "structlog" in loaded
    assert loaded & {"prometheus_client", "rich"} == set()


TAKEN = """
import sys
from headrace.cli.main import main
code = main(["up", "--data", sys.argv[1], "--api-port", sys.argv[2]])
print(code, "structlog" in sys.modules, "rich" in sys.modules)
"""


def test_so_does_the_foreground_of_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = subprocess.run(
            [sys.executable, "-P", "-c", TAKEN, tmp_path, str(port)], capture_output=True, text=True, check=True
        )
    assert ended.stdout.splitlines()[-1] == "1 True False"
