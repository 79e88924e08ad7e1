from __future__ import annotations

import json

from headrace.node_executor.launch.preempt_notice import PreemptNotice, write_notice


def test_the_job_finds_it_whole(tmp_path) -> None:
    path = tmp_path / "preempt.json"
    assert write_notice(str(path), PreemptNotice("preempted", "acme.bob.y", 1060)) == ""
    assert json.loads(path.read_text()) == {"reason": "preempted", "preemptor": "acme.bob.y", "deadline": 1060}
    assert [entry.name for entry in tmp_path.iterdir()] == ["preempt.json"]


def test_what_the_job_put_in_its_place_is_not_written_through(tmp_path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("as it was")
    for name in ("preempt.json", "preempt.json.new"):
        (tmp_path / name).symlink_to(precious)
    assert write_notice(str(tmp_path / "preempt.json"), PreemptNotice("drain", "", 5)) == ""
    assert precious.read_text() == "as it was"
    assert json.loads((tmp_path / "preempt.json").read_text())["reason"] == "drain"


def test_where_it_cannot_be_written_the_reason_is_told(tmp_path) -> None:
    (tmp_path / "preempt.json.new").mkdir()
    complaint = write_notice(str(tmp_path / "preempt.json"), PreemptNotice("drain", "", 5))
    assert complaint == "the preempt file could not be written: Is a directory"
