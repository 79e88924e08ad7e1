"""Two plays at the same time, to the same end."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal

import pytest

from headrace.simulate.run_pair import PlayLost, rarely_collected, run_pair


class Play:
    """Ends at `end`, and tells what it was told; `fails` is raised on the way, `dies`: its process ends."""

    def __init__(self, end, fails=None, *, dies=False):
        self.end = end
        self.fails = fails
        self.dies = dies

    def play(self, until, progress):
        assert until == 100
        for done in (250, 1_000):
            progress(done)
        if self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fails is not None:
            raise self.fails
        return self.end

    def outcome(self, end):
        return (self.end, end, os.getpid())


@pytest.fixture(params=["fork", ""])
def copied(request, monkeypatch):
    """Whether the second play is in a process of its own."""
    methods = [request.param] if request.param else ["spawn"]
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: methods)
    return bool(request.param)


def test_both_are_told_up_to_the_later_end(copied):
    shown = []
    end, (first, second) = run_pair(Play(70), Play(90), 100, shown.append)
    assert (end, first[:2], second[:2]) == (90, (70, 90), (90, 90))
    assert (first[2] != second[2]) is copied
    assert (shown == sorted(shown), shown[-1]) == (True, 1_000)


def test_the_end_may_be_later_than_both():
    assert run_pair(Play(70), Play(90), 100, lambda _: None, least=100)[0] == 100


@pytest.mark.usefixtures("copied")
@pytest.mark.parametrize("plays", [(ValueError("no"), None), (None, ValueError("no"))])
def test_what_either_raises_is_raised(plays):
    with pytest.raises(ValueError, match="no"):
        run_pair(*(Play(1, fails) for fails in plays), 100, lambda _: None)


def test_a_play_that_ends_without_a_word_is_told():
    with pytest.raises(PlayLost, match="too little memory"):
        run_pair(Play(1), Play(1, dies=True), 100, lambda _: None)


def test_garbage_is_looked_for_as_before_when_it_is_over():
    before = gc.get_threshold()
    with rarely_collected(12_345):
        assert gc.get_threshold() == (12_345, 50, 1_000)
    assert gc.get_threshold() == before
