"""The loop without time does what its docstring says."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from tests.simulation.clockwork import OUTSIDE, Clockwork, Process, Spinning, current


def run(work, seed=1):
    """What `work(loop)` gives, and when that was."""
    loop = Clockwork(Random(seed))
    try:
        found = loop.run_until_complete(loop.create_task(work(loop), context=OUTSIDE.context))
        return found, loop.time()
    finally:
        loop.close()


def counting(name, log, times=5):
    async def count():
        for number in range(times):
            log.append((name, number))
            await asyncio.sleep(0)

    return count()


def test_time_jumps_to_what_is_due_next():
    async def wait(loop):
        await asyncio.sleep(3_600)
        return loop.time()

    assert run(wait) == (3_600.0, 3_600.0)


def test_within_a_process_all_keeps_its_order_and_between_processes_the_seed_decides():
    def run_seed(seed):
        log = []

        async def both(_loop):
            for name in ("a", "b"):
                Process(name).run(counting(name, log))
            await asyncio.sleep(1)

        run(both, seed)
        return log

    orders = {tuple(run_seed(seed)) for seed in range(10)}
    assert len(orders) > 1
    assert all([entry for entry in order if entry[0] == "a"] == [("a", number) for number in range(5)] for order in orders)
    assert run_seed(7) == run_seed(7)


def test_what_was_killed_runs_no_more_whatever_becomes_due():
    log = []

    async def crash_victim(loop):
        process = Process("victim")
        process.run(counting("victim", log, 100))
        process.crash_in, process.on_crash = 3, loop.kill
        await asyncio.sleep(1)
        seen = len(log)
        loop.go_on(process)
        await asyncio.sleep(1)
        return seen

    assert run(crash_victim)[0] == 3


def test_what_was_stopped_goes_on_where_it_was():
    async def stop(loop):
        log = []
        process = Process("sleeper")
        process.run(counting("sleeper", log))
        process.stopped = True
        await asyncio.sleep(60)
        seen = len(log)
        loop.go_on(process)
        await asyncio.sleep(1)
        return seen, len(log)

    assert run(stop)[0] == (0, 5)


def test_everything_knows_in_which_process_it_is():
    async def ask(_loop):
        log = []

        async def note_current():
            await asyncio.sleep(1)
            log.append(current().name)

        Process("a").run(note_current())
        await asyncio.sleep(2)
        return [*log, current().name]

    assert run(ask)[0] == ["a", "outside"]


def test_who_lets_no_time_pass_is_found_out(monkeypatch):
    monkeypatch.setattr("tests.simulation.clockwork.STEPS_AT_ONCE", 1_000)
    loop = Clockwork(Random(1))

    async def spin():
        while True:
            await asyncio.sleep(0)

    task = loop.create_task(spin(), context=Process("spinner").context)
    with pytest.raises(Spinning, match="spinner goes on without letting time pass"):
        loop.run_until_complete(task)
    task._log_destroy_pending = False
    loop.close()


def test_threads_are_turns():
    async def work(_loop):
        return await asyncio.to_thread(lambda: 7)

    assert run(work)[0] == 7
