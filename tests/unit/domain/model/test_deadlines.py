"""What is due, and when the next thing will be."""

import random

from headrace.domain.model.deadlines import Deadlines
from tests.unit.size import size


def test_nothing_is_due_where_nothing_was_set():
    deadlines = Deadlines()
    assert (deadlines.due(10), deadlines.next(0)) == ([], None)


def test_what_is_due_comes_in_the_order_of_its_moments_and_looking_changes_nothing():
    deadlines = Deadlines()
    for name, moment in (("c", 30), ("a", 10), ("b", 10), ("d", 40)):
        deadlines.set(name, moment)
    assert deadlines.due(30) == ["a", "b", "c"]
    assert deadlines.due(30) == ["a", "b", "c"]


def test_a_name_has_one_moment_the_last_one_set():
    deadlines = Deadlines()
    deadlines.set("a", 10)
    deadlines.set("a", 20)
    assert (deadlines.due(15), deadlines.next(0)) == ([], 20)
    deadlines.set("a", 10)
    assert deadlines.due(15) == ["a"]


def test_what_was_cleared_is_due_no_more():
    deadlines = Deadlines()
    deadlines.set("a", 10)
    deadlines.clear("a")
    deadlines.clear("never set")
    assert (deadlines.due(10), deadlines.next(0)) == ([], None)


def test_the_next_moment_is_the_first_that_is_later():
    deadlines = Deadlines()
    for name, moment in (("a", 10), ("b", 20), ("c", 30)):
        deadlines.set(name, moment)
    assert [deadlines.next(after) for after in (9, 10, 20, 30)] == [10, 20, 30, None]


def test_many_changes_leave_it_as_short_as_what_is_set_and_as_right_as_a_plain_table():
    chance, deadlines, table = random.Random(7), Deadlines(), {}
    for _ in range(5_000):
        name, moment = f"j{chance.randrange(40)}", chance.randrange(1_000)
        if chance.random() < 0.3:
            deadlines.clear(name)
            table.pop(name, None)
        else:
            deadlines.set(name, moment)
            table[name] = moment
        assert deadlines.due(moment) == [name for at, name in sorted((at, name) for name, at in table.items()) if at <= moment]
        assert deadlines.next(moment) == min((at for at in table.values() if at > moment), default=None)
    assert size(deadlines) < 600


def test_all_moments_come_in_their_order_when_they_are_asked_for():
    deadlines, chance = Deadlines(), random.Random(1)
    for _ in range(300):
        deadlines.set(f"n{chance.randrange(60)}", chance.randrange(100))
        deadlines.clear(f"n{chance.randrange(200)}")

    found = list(dict.fromkeys(deadlines.ascending()))
    assert found == sorted((moment, name) for name, moment in deadlines.moments.items())
    assert list(Deadlines().ascending()) == []
