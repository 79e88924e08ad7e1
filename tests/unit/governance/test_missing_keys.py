from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from headrace.bus.text_encryption import Keyring
from headrace.contracts import facts as f
from headrace.governance.missing_keys import MissingKeys, locking, trouble
from tests.unit.allocator.history import History, policy

LOCKED = f.TextsLockedV1(tenant="default", handle="ann")
UNLOCKED = f.TextsUnlockedV1(tenant="default", handle="ann")
ANN = ("default", "ann")


class Installation:
    """A history, a folder of keys, and what is stated."""

    def __init__(self, folder):
        self.history = History(policy("ml", 2))
        self.folder, self.keys = folder, Keyring(folder)
        self.stated = []
        caught_up = asyncio.Event()
        caught_up.set()
        deciding = SimpleNamespace(fold=SimpleNamespace(state=self.history.state), caught_up=caught_up)
        self.missing_keys = MissingKeys(deciding, self.decided, self.keys, str(folder))

    async def decided(self, operation):
        decision = operation(self.history.state, self.history.now)
        if decision.facts:
            self.stated += decision.facts
            self.history.append_facts(*decision.facts)
        return decision.answer

    def admit(self, user="ann"):
        job = self.history.admit("ml/one", user=user)
        self.keys.seal(f"default.{user}", b"x", job.key)
        return job


@pytest.fixture
def installation(tmp_path):
    return Installation(tmp_path)


async def test_a_key_that_is_missing_is_stated_once_with_what_to_do_and_again_when_it_is_back(installation):
    installation.admit()
    await installation.missing_keys.check()
    assert (installation.stated, installation.missing_keys.trouble()) == ([], "")

    key = installation.folder / "default.ann.key"
    key.rename(installation.folder / "away")
    await installation.missing_keys.check()
    await installation.missing_keys.check()
    assert installation.stated == [LOCKED]
    assert installation.missing_keys.trouble() == (
        f"keys of what jobs run are missing in {installation.folder}, without an erasure: default.ann.key (1 jobs wait); "
        "put them back from a backup, or cancel those jobs"
    )

    (installation.folder / "away").rename(key)
    await installation.missing_keys.check()
    assert (installation.stated, installation.missing_keys.trouble()) == ([LOCKED, UNLOCKED], "")


async def test_when_the_jobs_are_given_up_nothing_waits_any_more(installation):
    job = installation.admit()
    (installation.folder / "default.ann.key").unlink()
    await installation.missing_keys.check()
    installation.history.cancel(job)
    installation.history.allocate()
    await installation.missing_keys.check()
    assert installation.stated == [LOCKED, UNLOCKED]


async def test_an_erasure_is_not_damage(installation):
    installation.admit()
    erased = f.UserErasedV1(author="default.admin", tenant="default", handle="ann", pseudonym="erased-1")
    installation.history.append_facts(erased)
    installation.keys.destroy("default.ann")
    await installation.missing_keys.check()
    assert installation.stated == []


def test_below_the_level_nothing_is_stated(installation):
    installation.admit()
    installation.history.state.terms.level = 1
    assert locking({ANN})(installation.history.state, 0).facts == ()


def test_of_very_many_the_first_are_named(installation):
    for number in range(7):
        user = f"u{number}"
        installation.history.admit("ml/one", user=user)
        installation.history.append_facts(f.TextsLockedV1(tenant="default", handle=user))
    message = trouble(installation.history.state, "/keys")
    assert "default.u4.key (1 jobs wait), and 2 more; put them back" in message
