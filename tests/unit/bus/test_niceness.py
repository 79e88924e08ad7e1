"""Who goes first, and who lets others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.bus import niceness
from headrace.bus.niceness import AdaptiveNiceness, lower_priority


class Kernel(NamedTuple):
    """What a process that began with niceness 3, and leads its session, has told the kernel; and the file of the session."""

    nice: list[int]
    autogroup: Path


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    fake = Kernel([], tmp_path / "autogroup")
    monkeypatch.setattr(niceness, "AUTOGROUP", fake.autogroup)
    monkeypatch.setattr(niceness.os, "getpriority", lambda _which, _who: 3)
    monkeypatch.setattr(niceness.os, "setpriority", lambda _which, _who, nice: fake.nice.append(nice))
    monkeypatch.setattr(niceness.os, "getsid", lambda _: os.getpid())
    return fake


def test_who_stands_behind_makes_its_own_session_nice_and_no_other(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(niceness.os, "getsid", lambda _: os.getpid() + 1)
    lower_priority(7)
    assert (kernel.nice, kernel.autogroup.exists()) == ([10], False)
    monkeypatch.setattr(niceness.os, "getsid", lambda _: os.getpid())
    lower_priority(7)
    assert (kernel.nice, kernel.autogroup.read_text()) == ([10, 10], "7")
    monkeypatch.setattr(niceness, "AUTOGROUP", tmp_path / "there" / "is" / "none")
    lower_priority(7)


def test_a_process_that_is_far_behind_keeps_its_priority_until_it_has_caught_up(kernel: Kernel) -> None:
    behind = AdaptiveNiceness(5)
    stood = [(kernel.nice[-1], kernel.autogroup.read_text())]
    for is_far in (False, True, True, False):
        behind.update(is_far_behind=is_far)
        stood.append((kernel.nice[-1], kernel.autogroup.read_text()))
    assert stood == [(8, "5"), (8, "5"), (3, "0"), (3, "0"), (8, "5")]
    assert kernel.nice == [8, 3, 8]  # told when something changes, and from where it began
