from __future__ import annotations

from pathlib import Path

import pytest

from headrace.node_executor.system import machine


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only program on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / "systemctl"
    program.write_text('#!/bin/sh\n[ "$*" = is-system-running ] && echo running\n')
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("state", "expected"), [("stopping", True), ("running", False), ("degraded", False), ("offline", False), ("", False)]
)
def test_a_machine_is_shutting_down_where_systemd_says_so(systemctl: Path, state: str, expected: bool) -> None:
    systemctl.write_text(f"#!/bin/sh\necho {state}\nexit 1\n")
    assert machine.is_shutting_down() is expected


def test_without_systemd_nothing_is_known_of_a_shutdown(systemctl: Path) -> None:
    systemctl.unlink()
    assert machine.is_shutting_down() is False


def test_a_systemd_that_does_not_answer_is_not_waited_for(systemctl: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "ANSWERS_WITHIN", 0.05)
    systemctl.write_text("#!/bin/sh\nexec /bin/sleep 1000\n")
    assert machine.is_shutting_down() is False


def test_a_start_of_the_machine_has_an_id_that_the_kernel_gives() -> None:
    assert machine.boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
