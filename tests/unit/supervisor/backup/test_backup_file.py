"""A backup is read as it was written, or refused with what is wrong with it."""

from __future__ import annotations

import tarfile

import msgspec
import pytest
from msgspec.structs import replace

from headrace.bus.nats.stream_copy import Copied
from headrace.supervisor.backup.backup_file import Contents, member_of, move, open_backup, pack, unpack, verify_file
from headrace.supervisor.errors import InstallationError

LEDGER = Copied({"name": "LEDGER"}, {"last_seq": 7, "messages": 7})


@pytest.fixture
def made(tmp_path):
    """(the file of a backup, its contents, an empty directory)"""
    staging, data, into = tmp_path / "staging", tmp_path / "data", tmp_path / "into"
    for directory in (staging / "streams", data / "keys", into):
        directory.mkdir(parents=True)
    (staging / "streams" / "LEDGER").write_bytes(b"records" * 1000)
    (data / "keys" / "acme.key").write_bytes(b"secret")
    (data / "keys" / "acme.key").chmod(0o600)
    members = (
        member_of("streams/LEDGER", staging / "streams" / "LEDGER"),
        member_of("files/keys/acme.key", data / "keys" / "acme.key"),
    )
    contents = Contents(release="1", at=1, through=7, streams=(LEDGER,), members=members)
    pack(staging, contents, data, tmp_path / "backup.tar")
    return tmp_path / "backup.tar", contents, into


def test_what_was_packed_is_unpacked(made, tmp_path):
    file, contents, into = made
    verify_file(file, contents)
    assert (open_backup(file), contents.size, oct(file.stat().st_mode)[-3:]) == (contents, 7006, "600")
    unpack(file, contents, into)
    assert (into / "streams" / "LEDGER").read_bytes() == b"records" * 1000
    (tmp_path / "home").mkdir()
    move(into / "files", tmp_path / "home")
    key = tmp_path / "home" / "keys" / "acme.key"
    assert (key.read_bytes(), oct(key.stat().st_mode)[-3:]) == (b"secret", "600")


@pytest.mark.parametrize("data", [b"", b"no tar at all" * 100])
def test_other_files_are_not_backups(tmp_path, data):
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(InstallationError, match=r"not a backup of Headrace[^\n]*$"):
        open_backup(tmp_path / "x")


def test_a_disk_that_takes_no_more_is_told_of_the_file_and_not_of_the_backup(made):
    file, contents, into = made
    into = into / "file"
    into.parent.mkdir(exist_ok=True)
    into.write_text("in the way")
    with pytest.raises(InstallationError, match=f"^{into}/.* cannot be written: Not a directory$"):
        unpack(file, contents, into)


def test_a_tar_of_something_else_is_not_a_backup(tmp_path):
    (tmp_path / "other").write_text("hello")
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        tar.add(tmp_path / "other", "other")
    with pytest.raises(InstallationError, match="it does not begin with backup.json"):
        open_backup(tmp_path / "x.tar")
    with pytest.raises(InstallationError, match="cannot be read: No such file"):
        open_backup(tmp_path / "nowhere.tar")


def test_a_changed_byte_is_found_and_its_part_named(made):
    file, contents, into = made
    file.write_bytes(file.read_bytes().replace(b"secret", b"sesret"))
    with pytest.raises(InstallationError, match="is damaged: files/keys/acme.key is not what was written"):
        unpack(file, contents, into)


def test_a_backup_that_was_cut_is_found(made):
    file, contents, into = made
    data = file.read_bytes()
    file.write_bytes(data[: data.index(b"recordsrecords") + 512])
    with pytest.raises(InstallationError, match="cut short"):
        unpack(file, contents, into)
    file.write_bytes(data)
    more = replace(contents, members=(*contents.members, replace(contents.members[0], name="streams/SUBMIT")))
    with pytest.raises(InstallationError, match="is cut short: streams/SUBMIT and 0 more parts are missing"):
        unpack(file, more, None)


def test_a_backup_of_another_form_says_which_release_reads_it(made):
    file, contents, _ = made
    data = file.read_bytes()
    text = msgspec.json.format(msgspec.json.encode(contents))
    file.write_bytes(data.replace(text, text.replace(b'"format": 1', b'"format": 2')))
    with pytest.raises(InstallationError, match="is of format 2; this release reads 1: use that of 1"):
        open_backup(file)


def test_nothing_is_written_outside(made):
    file, contents, into = made
    members = tuple(replace(member, name=f"../../{member.name}") for member in contents.members)
    with tarfile.open(file, "w") as tar:
        for member in members:
            tar.addfile(tarfile.TarInfo(member.name))
    with pytest.raises(InstallationError, match="is not a plain file of a backup"):
        unpack(file, replace(contents, members=members), into)
