"""The machine that the node is: whether it is being shut down, and which of its starts this is."""

from __future__ import annotations

import contextlib
import subprocess

ANSWERS_WITHIN = 2.0
"""Seconds that systemd gets to answer."""

_BOOT, _FIRST = "/proc/sys/kernel/random/boot_id", "/proc/1/comm"


def boot_id() -> str:
    """Return the kernel's id of this start of the machine; "" if it cannot be read."""
    return _text(_BOOT)


def is_shutting_down() -> bool:
    """Return whether systemd is shutting this machine down or restarting it; False if that cannot be found out.

    It blocks for up to `ANSWERS_WITHIN`.
    """
    if _text(_FIRST).startswith("systemd-shutdow"):  # as the kernel cuts it: what systemd becomes to kill what is left
        return True
    try:
        asked = subprocess.run(
            ["systemctl", "is-system-running"],  # noqa: S607 - of the executor's own PATH
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=ANSWERS_WITHIN,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.stdout.strip() == "stopping"


def _text(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        return file.read().strip()
    return ""
