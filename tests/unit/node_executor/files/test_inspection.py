from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from headrace.contracts.values.account_numbers import FIRST
from headrace.node_executor.files.inspection import FileInspector, acting_as, open_regular
from headrace.node_executor.system.accounts import UserAccount
from tests.patience import PATIENCE

ALICE, BOB = FIRST + 1, FIRST + 2
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root looks at files as others")


def read(path: Path, owner: int) -> bytes:
    descriptor = open_regular(str(path), owner)
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


@pytest.fixture
def stuck():
    """What a look at a file system that does not answer waits for."""
    answers = threading.Event()
    yield answers
    answers.set()


def test_a_regular_file_of_the_owner_is_opened(tmp_path) -> None:
    (tmp_path / "file").write_text("hello")
    assert read(tmp_path / "file", os.geteuid()) == b"hello"


@pytest.mark.parametrize("kind", ["fifo", "link", "device", "directory", "absent"])
def test_anything_but_a_regular_file_is_refused_without_blocking(tmp_path, kind) -> None:
    path = tmp_path / "file"
    (tmp_path / "other").write_text("hello")
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(tmp_path / "other")
    elif kind == "device":
        path = Path("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    with pytest.raises(OSError):  # noqa: PT011 - each kind has another message
        read(path, os.geteuid())


@only_root
def test_a_file_of_another_owner_is_refused_by_whichever_name(tmp_path) -> None:
    (tmp_path / "foreign").write_text("hello")
    os.chown(tmp_path / "foreign", BOB, BOB)
    os.link(tmp_path / "foreign", tmp_path / "linked")
    for name in ("foreign", "linked"):
        with pytest.raises(PermissionError, match="not a regular file of the job's own"):
            read(tmp_path / name, ALICE)


@only_root
def test_in_one_thread_files_are_looked_at_with_the_rights_of_the_account_and_of_no_group_of_ours(tmp_path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir(0o700)
    begun, beside = threading.Event(), []

    def look() -> None:
        begun.wait()
        beside.append(os.listdir(secret))

    other = threading.Thread(target=look)
    other.start()
    with acting_as(UserAccount(ALICE, ALICE, "alice")):
        with pytest.raises(PermissionError):
            os.listdir(secret)
        begun.set()
        other.join()
    assert (beside, os.listdir(secret)) == ([[]], [])


async def test_a_look_returns_what_was_found_or_raises_what_went_wrong() -> None:
    inspector = FileInspector()
    assert await inspector.inspect("alice", "a", lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await inspector.inspect("alice", "a", lambda: 1 // 0)
    assert not inspector.busy("a")


async def test_a_look_that_hangs_is_given_up_and_others_go_on(stuck) -> None:
    inspector = FileInspector(within=0.5, at_once=2)
    with pytest.raises(TimeoutError, match="within 0.5 s"):
        await inspector.inspect("alice", "a", stuck.wait)
    assert inspector.busy("a")
    assert await inspector.inspect("bob", "b", lambda: 7) == 7


async def test_a_key_whose_look_hangs_never_has_a_second_thread(stuck) -> None:
    inspector = FileInspector(within=0.5, at_once=2)
    looks = [inspector.inspect("alice", "a", stuck.wait) for _ in range(20)]
    ended = await asyncio.gather(*looks, return_exceptions=True)
    assert [type(one) for one in ended] == [TimeoutError] * 20
    assert await inspector.inspect("bob", "b", lambda: 7) == 7


async def test_when_looks_that_hung_return_their_keys_and_their_user_are_looked_at_again(stuck) -> None:
    inspector = FileInspector(within=0.5, at_once=4)
    hanging = [inspector.inspect("alice", key, stuck.wait) for key in ("a", "b")]
    assert [type(one) for one in await asyncio.gather(*hanging, return_exceptions=True)] == [TimeoutError] * 2
    with pytest.raises(TimeoutError):
        await inspector.inspect("alice", "c", lambda: 7)
    stuck.set()
    async with asyncio.timeout(PATIENCE):
        while inspector.busy("a") or inspector.busy("b"):
            await asyncio.sleep(0.001)
    assert [await inspector.inspect("alice", key, lambda: 7) for key in ("a", "b", "c")] == [7] * 3


async def test_looks_of_one_key_come_one_after_the_other() -> None:
    inspector, seen = FileInspector(), []
    await asyncio.gather(*(inspector.inspect("alice", "a", lambda number=number: seen.append(number)) for number in range(50)))
    assert seen == list(range(50))


async def test_looks_of_one_user_that_all_hang_do_not_hold_up_the_looks_of_others(stuck) -> None:
    inspector = FileInspector(within=PATIENCE, at_once=16)
    hanging = [inspector.inspect("alice", f"a{number}", stuck.wait) for number in range(40)]
    assert await asyncio.wait_for(inspector.inspect("bob", "b", lambda: 7), PATIENCE / 2) == 7
    stuck.set()
    assert await asyncio.gather(*hanging) == [True] * 40


async def test_looks_of_many_users_that_hang_hold_up_those_of_others_until_their_deadline_only(stuck) -> None:
    inspector = FileInspector(within=0.5, at_once=2)
    hanging = [inspector.inspect(f"user{number}", f"a{number}", stuck.wait) for number in range(10)]
    ended = await asyncio.gather(*hanging, return_exceptions=True)
    assert [type(one) for one in ended] == [TimeoutError] * 10
    assert await inspector.inspect("bob", "b", lambda: 7) == 7
