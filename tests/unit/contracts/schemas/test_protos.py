from __future__ import annotations

import pytest

from headrace.contracts.schemas import protos


def test_what_is_checked_in_is_what_protoc_makes():
    assert protos.written() == protos.generate()


def test_generated_modules_import_each_other_from_their_own_package():
    made = protos.written()
    assert "from headrace.contracts.api import plan_pb2" in made["policies_pb2.py"]
    assert not any("from headrace.v1" in text for text in made.values())


def test_a_proto_that_is_wrong_is_told_in_the_words_of_protoc(tmp_path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "wrong.proto").write_text('syntax = "proto3";\nmessage Wrong { strin name = 1; }\n')
    monkeypatch.setattr(protos, "SOURCES", tmp_path)
    with pytest.raises(protos.ProtosBroken, match='wrong.proto:2:17: "strin" is not defined'):
        protos.generate()
