"""One event after the other, and what each asks for before the next."""

from __future__ import annotations

import pytest

from headrace.node_executor.core.inbox import Inbox


class Counting:
    """Asks for `n - 1` and `n - 2` when it hears of `n`."""

    def step(self, event: int) -> list[int]:
        return [event - less for less in (1, 2) if event >= less]


def test_what_an_action_brings_about_waits_until_the_actions_of_the_same_step_are_performed():
    performed: list[int] = []

    def perform(action: int) -> None:
        performed.append(action)
        inbox.handle(action)

    inbox = Inbox(Counting(), perform)
    inbox.handle(3)

    assert performed == [2, 1, 1, 0, 0, 0]


def test_after_an_action_that_raised_it_goes_on_with_the_next_event():
    performed: list[int] = []

    def perform(action: int) -> None:
        if action == 5:
            raise RuntimeError("no")
        performed.append(action)

    inbox = Inbox(Counting(), perform)
    with pytest.raises(RuntimeError, match="no"):
        inbox.handle(6)
    inbox.handle(1)

    assert performed == [0]
