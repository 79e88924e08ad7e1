"""Who is served next, who waits where, and what is left when a caller goes away."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from headrace.governance.api.slots import QueueFull, Slots

PROVIDER, VIEWER, TENANT = range(3)


class Scene:
    """Questions that go on until they are told to end."""

    def __init__(self, slots: Slots) -> None:
        self.slots = slots
        self.served: list[str] = []
        self._asking: dict[str, tuple[asyncio.Task[None], asyncio.Event]] = {}

    async def ask(self, name: str, account: str, rank: int = TENANT) -> None:
        done = asyncio.Event()

        async def question() -> None:
            async with self.slots.one(account, name, rank, 0):
                self.served.append(name)
                await done.wait()

        self._asking[name] = asyncio.create_task(question()), done
        await asyncio.sleep(0)

    async def answered(self, name: str) -> None:
        task, done = self._asking.pop(name)
        done.set()
        await task
        await asyncio.sleep(0)

    async def gone(self, name: str) -> None:
        task, _ = self._asking.pop(name)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)

    def shown(self) -> list[tuple[str, int]]:
        return [(place.caller, place.position) for place in self.slots.places()]


async def test_one_tenant_has_one_slot_and_leaves_the_other_to_others():
    scene = Scene(Slots(2))
    for name in ("a1", "a2", "a3"):
        await scene.ask(name, "acme")
    assert scene.shown() == [("a1", 0), ("a2", 1), ("a3", 2)]
    await scene.ask("b1", "other")
    assert scene.served == ["a1", "b1"]
    await scene.gone("b1")
    assert scene.shown() == [("a1", 0), ("a2", 1), ("a3", 2)]


async def test_the_provider_comes_first_then_each_tenants_first_question_before_any_second_one():
    scene = Scene(Slots(2))
    for name, account in (("a1", "acme"), ("b1", "other"), ("a2", "acme"), ("a3", "acme"), ("b2", "other"), ("c1", "third")):
        await scene.ask(name, account)
    await scene.ask("viewer", "", VIEWER)
    await scene.ask("root", "", PROVIDER)
    assert scene.shown() == [
        *(("a1", 0), ("b1", 0)),
        *(("root", 1), ("viewer", 2), ("c1", 3), ("a2", 4), ("b2", 5), ("a3", 6)),
    ]
    await scene.answered("a1")
    assert scene.shown()[:3] == [("b1", 0), ("root", 0), ("viewer", 1)]
    await scene.ask("a4", "acme")
    await scene.answered("b1")
    assert scene.served == ["a1", "b1", "root", "a2"]
    await scene.answered("root")
    await scene.answered("viewer")
    assert scene.served == ["a1", "b1", "root", "a2", "viewer", "b2"]


async def test_who_goes_away_gives_back_the_slot_or_the_place_in_the_queue():
    scene = Scene(Slots(1))
    for name, account in (("a", "acme"), ("b", "other"), ("c", "third")):
        await scene.ask(name, account)
    await scene.gone("b")
    assert scene.shown() == [("a", 0), ("c", 1)]
    await scene.gone("a")
    assert scene.shown() == [("c", 0)]


async def test_one_tenant_cannot_fill_the_queue_and_all_of_them_cannot_keep_the_provider_out():
    scene = Scene(Slots(1, waiting_max=3, waiting_each=2))
    for name, account in (("a0", "acme"), ("a1", "acme"), ("a2", "acme"), ("b1", "other")):
        await scene.ask(name, account)
    refused = {}
    for account in ("acme", "other", ""):
        try:
            async with asyncio.timeout(0), scene.slots.one(account, "late", TENANT if account else PROVIDER, 0):
                raise AssertionError
        except QueueFull as full:
            refused[account] = full.own
        except TimeoutError:
            refused[account] = None
    assert refused == {"acme": True, "other": False, "": None}
    assert scene.shown() == [("a0", 0), ("b1", 1), ("a1", 2), ("a2", 3)]


async def test_a_question_that_fails_gives_its_slot_to_the_next():
    slots = Slots(1)
    with pytest.raises(ValueError, match="trouble"):
        async with slots.one("acme", "a", TENANT, 0):
            raise ValueError("trouble")
    async with slots.one("other", "b", TENANT, 0):
        assert [(place.caller, place.position) for place in slots.places()] == [("b", 0)]
