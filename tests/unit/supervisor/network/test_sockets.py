from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from headrace.supervisor.network.sockets import PATH_MAX, NoSocketDirectory, short_enough


def test_a_short_path_stays():
    assert short_enough(Path("/data/api.sock")) == Path("/data/api.sock")


@pytest.fixture
def short(monkeypatch):
    with tempfile.TemporaryDirectory() as name:
        monkeypatch.setattr(tempfile, "gettempdir", lambda: name)
        yield Path(name)


def test_a_long_one_gets_a_place_of_its_own_which_is_the_same_each_time(short):
    wanted = Path("/") / ("x" * PATH_MAX) / "api.sock"
    found = short_enough(wanted)
    assert found == short_enough(wanted)
    assert found != short_enough(Path("/") / ("y" * PATH_MAX) / "api.sock")
    assert (found.name, found.parent.parent, oct(found.parent.stat().st_mode & 0o777)) == ("api.sock", short, "0o700")


def test_a_place_that_lets_others_in_is_not_used(short):
    wanted = Path("/") / ("x" * PATH_MAX) / "api.sock"
    os.chmod(short_enough(wanted).parent, 0o755)
    with pytest.raises(NoSocketDirectory, match="is open to others"):
        short_enough(wanted)


def test_where_nothing_is_short_enough_the_way_out_is_told(short, monkeypatch):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/" + "t" * PATH_MAX)
    with pytest.raises(NoSocketDirectory, match="name another directory with --data"):
        short_enough(Path("/") / ("x" * PATH_MAX) / "api.sock")
