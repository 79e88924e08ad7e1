"""Key, seals and tail on the disk."""

from __future__ import annotations

import os

import pytest

from headrace.audit.seal_store import KEPT, KEY, TAIL, SealKey, SealStore, SealStoreError, read_seals
from tests.unit.audit.seals_made import marks, seals_over


def test_the_key_is_made_once_and_read_by_its_owner_alone(tmp_path):
    kept = SealStore(tmp_path / "seals")
    assert kept.public() == ""
    public = kept.key().public
    assert (kept.public(), SealStore(tmp_path / "seals").key().public) == (public, public)
    assert (tmp_path / "seals" / KEY).stat().st_mode & 0o777 == 0o600


def test_a_key_that_is_invalid_or_that_others_may_read_is_refused(tmp_path):
    path = tmp_path / "key.pem"
    SealKey.at(path)
    path.chmod(0o640)
    with pytest.raises(SealStoreError, match="may be read by others; `chmod 600"):
        SealKey.at(path)
    path.write_bytes(b"x")
    path.chmod(0o600)
    with pytest.raises(SealStoreError, match="is not a key; put the one from a backup there"):
        SealKey.at(path)
    with pytest.raises(SealStoreError, match="cannot be used: "):
        SealKey.at(path / "key.pem")


def test_a_key_that_is_gone_is_named_where_seals_were_signed_with_it_and_not_replaced(tmp_path, written):
    kept = SealStore(tmp_path / "seals")
    kept.key()
    kept.keep(seals_over(written, 4)[0])
    (tmp_path / "seals" / KEY).unlink()
    with pytest.raises(SealStoreError) as error:
        kept.key()
    assert str(error.value) == (
        f"{tmp_path}/seals/key.pem is gone, and the seals in {tmp_path}/seals/.seals.jsonl were signed with it: put it back from a "
        f"backup; where it is lost for good, move {tmp_path}/seals away, and a new key signs what comes"
    )
    assert not (tmp_path / "seals" / KEY).exists()


def test_a_full_disk_leaves_no_part_of_a_key(tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(SealStoreError, match="key.pem cannot be used: No space left on device"):
            SealKey.at(tmp_path / "key.pem")
    assert [*tmp_path.iterdir()] == []
    assert SealKey.at(tmp_path / "key.pem").public


def test_seals_are_kept_a_line_each_and_the_tail_begins_anew(tmp_path, written):
    kept, made = SealStore(tmp_path / "seals"), seals_over(written, 4)
    assert (kept.seals(), kept.tail(0)) == ([], [])
    kept.note(1, marks(written[:4]))
    kept.keep(made[0])
    kept.note(5, marks(written[4:7]))
    kept.note(8, marks(written[7:8]))
    assert (kept.seals(), kept.tail(4)) == (made[:1], marks(written[4:8]))


def test_a_tail_is_believed_as_far_as_it_goes_on_behind_the_seals(tmp_path, written):
    kept = SealStore(tmp_path)
    kept.note(1, marks(written[:6]))
    kept.note(9, marks(written[8:9]))
    assert (kept.tail(4), kept.tail(7)) == (marks(written[4:6]), [])
    path = tmp_path / TAIL
    path.write_bytes(path.read_bytes()[: 20 * 5 + 3])
    assert kept.tail(0) == marks(written[:5])


def test_a_line_that_was_changed_is_refused_by_its_number(tmp_path, written):
    kept = SealStore(tmp_path)
    for seal in seals_over(written, 4)[:2]:
        kept.keep(seal)
    path = tmp_path / KEPT
    lines = path.read_bytes().splitlines()
    path.write_bytes(lines[0] + b"\n" + lines[1].replace(b'"last":8', b'"last":9') + b"\n")
    with pytest.raises(SealStoreError, match="line 2: seal 2 is invalid: it has no mark for each of the records 5 to 9"):
        kept.seals()
    path.write_bytes(b"nonsense\n")
    with pytest.raises(SealStoreError, match="line 1, is not a seal: "):
        read_seals(path)
    with pytest.raises(SealStoreError, match="cannot be read: No such file or directory"):
        read_seals(tmp_path / "nothing")
