"""Texts open for their tenant and their job only, until the key is destroyed."""

from __future__ import annotations

import os
import stat
from base64 import b64decode, b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.bus.text_encryption import KeyGone, Keyring, SealBroken
from headrace.contracts.values.ids import IdError

JOB = "acme.alice.01jd000000000000000000000a"


def test_a_sealed_text_opens_again_in_another_process_and_shows_nothing(tmp_path: Path) -> None:
    sealed = Keyring(tmp_path / "keys").seal("acme", b"python train.py", JOB)
    assert b"train" not in b64decode(sealed)
    assert Keyring(tmp_path / "keys").open("acme", sealed, JOB) == b"python train.py"
    assert Keyring(tmp_path / "keys").seal("acme", b"python train.py", JOB) != sealed


def test_keys_are_readable_by_their_owner_only_and_nothing_else_is_left(tmp_path: Path) -> None:
    Keyring(tmp_path / "keys").seal("acme", b"x", JOB)
    (key,) = (tmp_path / "keys").iterdir()
    assert (key.name, key.stat().st_size) == ("acme.key", 32)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "keys", key)] == [0o700, 0o600]


def test_a_text_does_not_open_for_another_job_or_after_a_change(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    sealed = keyring.seal("acme", b"x", JOB)
    with pytest.raises(SealBroken, match="sealed for something else"):
        keyring.open("acme", sealed, "acme.alice.another")
    raw = bytearray(b64decode(sealed))
    raw[-1] ^= 1
    with pytest.raises(SealBroken, match="has been changed"):
        keyring.open("acme", b64encode(raw).decode(), JOB)


@pytest.mark.parametrize("nonsense", ["", "no base64!", "AAAA", b64encode(bytes(100)).decode()])
def test_what_is_not_a_sealed_text_is_told_so(tmp_path: Path, nonsense: str) -> None:
    with pytest.raises(SealBroken, match="not a sealed text"):
        Keyring(tmp_path).open("acme", nonsense, JOB)


def test_the_key_of_one_tenant_does_not_open_the_text_of_another(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    sealed = keyring.seal("acme", b"x", JOB)
    keyring.seal("umbrella", b"y", JOB)
    with pytest.raises(KeyGone):
        keyring.open("umbrella", sealed, JOB)


def test_a_destroyed_key_erases_what_it_sealed_for_every_process_and_nothing_later(tmp_path: Path) -> None:
    mine, theirs = Keyring(tmp_path), Keyring(tmp_path)
    sealed = mine.seal("acme", b"x", JOB)
    assert theirs.open("acme", sealed, JOB) == b"x"
    mine.destroy("acme")
    mine.destroy("acme")
    for keyring in (mine, theirs):
        with pytest.raises(KeyGone, match="has none of that name"):
            keyring.open("acme", sealed, JOB)
    later = theirs.seal("acme", b"y", JOB)
    assert mine.open("acme", later, JOB) == b"y"
    with pytest.raises(KeyGone):
        mine.open("acme", sealed, JOB)


def test_processes_that_race_for_the_first_key_agree_on_one(tmp_path: Path) -> None:
    rings = [Keyring(tmp_path) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda ring: ring.seal("acme", b"x", JOB), rings))
    assert [rings[0].open("acme", sealed, JOB) for sealed in texts] == [b"x"] * 8
    assert os.listdir(tmp_path) == ["acme.key"]


def test_a_tenant_that_is_not_a_token_names_no_file(tmp_path: Path) -> None:
    with pytest.raises(IdError):
        Keyring(tmp_path).seal("../acme", b"x", JOB)


def test_a_file_that_is_not_a_key_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "acme.key").write_bytes(b"short")
    with pytest.raises(SealBroken, match="not a key"):
        Keyring(tmp_path).seal("acme", b"x", JOB)


def test_a_persons_key_goes_alone_and_a_tenants_with_those_of_all_its_people(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    alice, bob, other = (keyring.seal(owner, b"x", JOB) for owner in ("acme.alice", "acme.bob", "acme2.alice"))
    assert [keyring.has(owner) for owner in ("acme.alice", "acme", "acme2", "acme.eve", "other")] == [True] * 3 + [False] * 2
    keyring.destroy("acme.alice")
    assert [keyring.has(owner) for owner in ("acme.alice", "acme.bob", "acme")] == [False, True, True]
    with pytest.raises(KeyGone, match="the key of acme.alice"):
        keyring.open("acme.alice", alice, JOB)
    assert keyring.open("acme.bob", bob, JOB) == b"x"
    keyring.destroy("acme")
    with pytest.raises(KeyGone):
        keyring.open("acme.bob", bob, JOB)
    assert keyring.open("acme2.alice", other, JOB) == b"x"


def test_what_was_sealed_for_the_tenant_opens_for_its_people(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    sealed = keyring.seal("acme", b"x", JOB)
    keyring.seal("acme.alice", b"y", JOB)
    assert keyring.open("acme.alice", sealed, JOB) == b"x"


@pytest.mark.parametrize("owner", ["acme.", ".alice", "acme.alice.more", "acme/../x", "acme.ALICE"])
def test_an_unknown_person_has_no_key(tmp_path: Path, owner: str) -> None:
    with pytest.raises(IdError, match="it is neither a tenant nor a person in one"):
        Keyring(tmp_path).seal(owner, b"x", JOB)


def test_a_key_that_is_missing_keeps_its_place_and_opens_what_it_sealed_once_it_is_back(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    before = keyring.seal("acme.alice", b"x", JOB)
    assert not keyring.is_missing("acme.alice")
    (tmp_path / "acme.alice.key").rename(tmp_path / "away")
    assert keyring.is_missing("acme.alice")
    meanwhile = [keyring.seal("acme.alice", text, JOB, beside=True) for text in (b"y", b"z")]
    assert (keyring.is_missing("acme.alice"), len([*tmp_path.glob("*.key")])) == (True, 1)
    (tmp_path / "away").rename(tmp_path / "acme.alice.key")
    after = keyring.seal("acme.alice", b"w", JOB, beside=True)
    assert [keyring.open("acme.alice", sealed, JOB) for sealed in (before, *meanwhile, after)] == [b"x", b"y", b"z", b"w"]
    keyring.destroy("acme.alice")
    assert [*tmp_path.glob("*.key")] == []


def test_the_directory_is_not_searched_for_a_text_that_its_owners_key_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyring = Keyring(tmp_path)
    sealed = keyring.seal("acme.alice", b"x", JOB)
    monkeypatch.setattr(Path, "glob", lambda *_: pytest.fail("a search takes longer the more people there are"))
    assert keyring.open("acme.alice", sealed, JOB) == b"x"
