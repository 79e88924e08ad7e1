"""How much waits for readers who do not read; what a watch tells is in `tests/integration/test_api.py`."""

from __future__ import annotations

import json
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from headrace.governance.api import watch
from headrace.governance.api.errors import ApiError
from headrace.governance.api.watch import Watches, _Watcher
from headrace.governance.api.watch_limits import WatchLimits
from headrace.identity.caller import Caller, Role

SUBJECT = "hr.feed.acme.job.ended.01jd3v8k5w2m4x6z8b0c2e4g6h"


def message(number):
    return SimpleNamespace(
        subject=SUBJECT, data=json.dumps({"type": "job.ended.v1", "sequence": number, "number": 0, "at": 1}).encode()
    )


async def queue_length_after(reader, facts):
    for number in range(facts):
        await reader.receive(message(number))
    return reader.unsent


async def test_a_reader_who_does_not_read_keeps_so_much_and_is_told_to_begin_again(monkeypatch):
    monkeypatch.setattr(watch, "UNSENT_MAX", 4)
    reader = _Watcher("acme", "", Watches())
    assert await queue_length_after(reader, 9) == 4
    assert [(await reader.next()).sequence for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ApiError, match="^more than 4 facts wait to be read; read faster, or watch less; begin again$"):
        await reader.next()


async def test_many_readers_together_keep_no_more_than_all_may(monkeypatch):
    monkeypatch.setattr(watch, "UNSENT_ALL", 8)
    watches = Watches()
    readers = [_Watcher("acme", "", watches) for _ in range(4)]
    watches.watchers.update(readers)
    assert [await queue_length_after(reader, 9) for reader in readers] == [2, 2, 2, 2]
    watches.watchers.difference_update(readers[1:])
    assert watches.allowed() == 8


def test_watches_of_one_caller_and_of_one_tenant_leave_room_for_others():
    limits, held = WatchLimits(most=5, each=2, of_a_tenant=3), []

    def enter(caller):
        held.append((caller, limits.one(caller)))
        held[-1][1].__enter__()

    ann, bob, cid = (Caller(Role.TENANT_MEMBER, "acme", name) for name in ("ann", "bob", "cid"))
    eve, root = Caller(Role.TENANT_MEMBER, "other", "eve"), Caller(Role.PROVIDER_ADMIN, "default", "root")
    for caller in (ann, ann, bob):
        enter(caller)
    with pytest.raises(ApiError, match="^you have 2 watches already; end one of them, or watch all jobs in one$"):
        enter(ann)
    with pytest.raises(ApiError, match="^the users of your tenant have 3 watches already; end one of them$"):
        enter(cid)
    enter(eve)
    enter(root)
    with pytest.raises(ApiError, match="^there are too many watches now; try again later$"):
        enter(eve)
    next(watch for caller, watch in held if caller is bob).__exit__(None, None, None)
    enter(cid)


def test_callers_of_one_handle_and_different_roles_have_watches_of_their_own():
    limits = WatchLimits(each=1)
    with ExitStack() as held:
        for role in (Role.TENANT_MEMBER, Role.SERVICE_ACCOUNT, Role.PROVIDER_VIEWER):
            held.enter_context(limits.one(Caller(role, "default", "ann")))
        with pytest.raises(ApiError, match="^you have 1 watches already"):
            held.enter_context(limits.one(Caller(Role.SERVICE_ACCOUNT, "default", "ann")))


async def test_a_watch_that_cannot_begin_gives_its_place_back():
    class Gone:
        async def subscribe(self, _subject, cb):
            assert cb
            raise ConnectionError("it is closed")

    watches = Watches(most=1)
    call = SimpleNamespace(caller=Caller(Role.TENANT_MEMBER, "acme", "ann"), backend=SimpleNamespace(connection=Gone()))
    for _ in range(2):
        with pytest.raises(ConnectionError, match="it is closed"):
            await anext(watches.watch_jobs(SimpleNamespace(parent="tenants/acme", job="", user=""), call))
    assert watches.allowed() == watch.UNSENT_MAX
