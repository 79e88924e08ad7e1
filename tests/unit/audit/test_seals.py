"""What a seal says, and what is not a seal."""

from __future__ import annotations

import pytest
from msgspec import structs

from headrace.audit.seals import MARK, RecordRange, flaw, is_behind, marks_of, name_of, statement
from tests.unit.audit.seals_made import KEY, OTHER, altered_base64, marks, seals_over


def test_seals_cover_all_records_in_order_and_name_each_other(written):
    seals = seals_over(written, 5)
    assert [(seal.number, seal.first, seal.last) for seal in seals] == [
        (number, 5 * number - 4, 5 * number) for number in range(1, len(written) // 5 + 1)
    ]
    assert [seal.prev for seal in seals] == ["", *map(name_of, seals[:-1])]
    assert [flaw(seal, KEY.public) for seal in seals] == [""] * len(seals)
    assert [is_behind(seal, before) for seal, before in zip(seals, [None, *seals], strict=False)] == [True] * len(seals)


def test_a_record_has_its_mark_of_subject_bytes_and_time(written):
    first = written[0]
    others = [
        first._replace(subject=first.subject + "x"),
        first._replace(payload=first.payload + b" "),
        first._replace(stamped=first.stamped + 1),
    ]
    known = marks([first])[0]
    assert len(known) == MARK
    assert [marks([other])[0] != known for other in others] == [True] * 3
    assert marks_of(seals_over(written, 5)[0]) == marks(written[:5])


def test_the_subject_does_not_run_into_the_bytes(written):
    one = written[0]._replace(subject="a", payload=b"bc")
    assert marks([one]) != marks([one._replace(subject="ab", payload=b"c")])


def test_a_stretch_forgets_what_is_sealed(written):
    stretch = RecordRange()
    for message in written[:6]:
        stretch.add(message)
    stretch.drop(4)
    rest = RecordRange()
    for message in written[4:6]:
        rest.add(message)
    assert (len(stretch), stretch.contents(2), stretch.times(2)) == (2, rest.contents(2), rest.times(2))


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"number": 9}, "its signature is not that of what it says"),
        ({"first": 5}, "it has no mark for each of the records 5 to 10"),
        ({"first": 11}, "it has no mark for each of the records 11 to 10"),
        ({"prev": "00"}, "its signature is not that of what it says"),
        ({"contents": "00"}, "its signature is not that of what it says"),
        ({"times": "00"}, "its signature is not that of what it says"),
        ({"marks": "?"}, "it has no mark for each of the records 6 to 10"),
        ({"signature": "?"}, "its signature is not that of what it says"),
        ({"signature": ""}, "its signature is not that of what it says"),
        ({"key": "?"}, "it was made with another key, ?"),
        ({"key": OTHER.public}, f"it was made with another key, {OTHER.public}"),
    ],
)
def test_a_seal_with_a_changed_field_is_invalid(written, change, wrong):
    seal = seals_over(written, 5)[1]
    assert flaw(structs.replace(seal, **change), KEY.public) == wrong


def test_other_marks_of_the_same_number_are_seen_by_the_signature(written):
    seal = seals_over(written, 5)[1]
    other = structs.replace(seal, marks=altered_base64(seal.marks))
    assert flaw(other, "") == "its signature is not that of what it says"


def test_a_seal_with_another_key_is_one_where_no_key_is_known(written):
    seal = seals_over(written, 5, OTHER)[0]
    assert (flaw(seal, ""), flaw(seal, KEY.public)) == ("", f"it was made with another key, {OTHER.public}")
    assert flaw(structs.replace(seal, key="?"), "") == "its signature is not that of what it says"


def test_everything_a_seal_says_is_signed(written):
    seal = seals_over(written, 5)[0]
    statements = {statement(structs.replace(seal, **{field: "x"})) for field in seal.__struct_fields__ if field != "signature"}
    assert len(statements | {statement(seal)}) == len(seal.__struct_fields__)


def test_only_the_next_is_behind_a_seal(written):
    first, second, third = seals_over(written, 5)[:3]
    assert (is_behind(second, None), is_behind(third, first), is_behind(first, first)) == (False, False, False)
