from __future__ import annotations

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct
from google.protobuf.timestamp_pb2 import Timestamp

from headrace.contracts.api.policies_pb2 import Policy
from headrace.contracts.api.pools_pb2 import Pool
from headrace.contracts.documents.reader import read_documents
from headrace.contracts.documents.tree import tree_of
from headrace.contracts.documents.writer import write_document
from headrace.contracts.messages.explanation import UnusableView
from headrace.governance.api import messages
from headrace.governance.api.errors import ApiError

WRITTEN = {
    "group": "ai-dev",
    "profiles": [{"name": "half", "borrow": False, "submitters": ["ci"]}, {"name": "one"}],
    "priority": "7",
    "reservation": {"gpu": "4"},
    "per_pool": {"onprem": {"limit": {"gpu": "8", "license/abaqus": "2"}}},
    "preemption": {"min_runtime": "10m", "max_preemptions": "3"},
    "budgets": [{"key": "gpu", "hours": "500", "then": "borrow"}],
    "windows": [{"days": ["mon", "tue"], "from": "08:00", "to": "20:00"}],
}


def test_a_message_and_what_people_write_are_the_same():
    policy = Policy()
    messages.fill(policy, WRITTEN)
    assert messages.written_of(policy) == WRITTEN


def test_a_document_goes_through_a_message_unchanged():
    (document,) = read_documents(tree_of({"policies": [{"tenant": "acme", "name": "ai-dev"} | WRITTEN]})).policies
    policy = Policy()
    messages.fill(policy, write_document(document))
    policy.ClearField("name")
    again = {"tenant": "acme", "name": "ai-dev"} | messages.written_of(policy)
    assert read_documents(tree_of({"policies": [again]})).policies == (document,)


def test_a_short_form_is_written_out():
    policy = Policy()
    messages.fill(policy, {"profiles": ["half"]})
    assert messages.written_of(policy) == {"profiles": [{"name": "half"}]}


def test_an_empty_part_is_still_there_and_unknown_names_are_left_out():
    pool = Pool()
    messages.fill(pool, {"access": {}, "colour": "red"})
    assert messages.written_of(pool) == {"access": {}}


def test_amounts_and_moments_as_people_write_them():
    assert messages.texts({"gpu": 63_000, "memory": 65_536}) == {"gpu": "0.5", "memory": "64GiB"}
    assert messages.moment(0) is None
    assert messages.moment(1_500_000).ToJsonString() == "1970-01-01T00:00:01.500Z"
    assert messages.microseconds(Timestamp(seconds=2, nanos=7_000), "since") == 2_000_007
    with pytest.raises(ApiError, match="since: write a moment"):
        messages.microseconds(Timestamp(seconds=10**15), "since")


@pytest.mark.parametrize("text", ["-1", "1.5", "x", "9" * 19, "١"])
def test_a_sequence_is_digits(text):
    assert messages.sequence_of("", "after") == 0
    assert messages.sequence_of("12", "after") == 12
    with pytest.raises(ApiError, match="after: write a ledger sequence"):
        messages.sequence_of(text, "after")


def test_numbers_of_json_become_the_text_that_people_would_write():
    found = messages.plain(
        ParseDict({"gpu": 0.1, "n": 4, "big": 1e300, "on": True, "none": None, "list": [1, "a", {"b": 2}]}, Struct())
    )
    assert found == {"gpu": "0.1", "n": "4", "big": "1e+300", "on": True, "none": None, "list": ["1", "a", {"b": "2"}]}


def test_what_is_unusable_is_told_with_its_amount_and_since_when():
    view = UnusableView(key="gpu", node="n-2", cause="cordoned", amount=63_000, by="acme.olga", since=1_500_000)
    assert MessageToDict(messages.unusable(view)) == {
        "key": "gpu",
        "node": "n-2",
        "cause": "cordoned",
        "amount": "0.5",
        "by": "acme.olga",
        "sinceTime": "1970-01-01T00:00:01.500Z",
    }
