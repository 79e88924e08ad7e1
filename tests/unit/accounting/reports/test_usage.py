from __future__ import annotations

import pytest

from headrace.accounting.reports.usage import InvalidQuery, check
from headrace.accounting.reports.usage_reader import FIELDS
from headrace.contracts.messages.usage import UsageRequest

NOW = 1_000


@pytest.mark.parametrize("field", [*FIELDS, "label:project"])
def test_usage_can_be_asked_by_each_of_these(field: str) -> None:
    check(UsageRequest(by=(field,)), NOW)


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        (UsageRequest(by=("group", "colour")), "by: usage is not kept by 'colour'; it is by tenant, group, user,"),
        (UsageRequest(by=("label:",)), "by: usage is not kept by 'label:'"),
        (UsageRequest(by=("group", "group")), "by: the same name stands there twice"),
        (UsageRequest(by=FIELDS), "by: at most 8 names"),
        (UsageRequest(since=-1), "since, until, skip: microseconds since 1970"),
        (UsageRequest(since=5, until=5), "since, until: the period ends before it begins"),
        (UsageRequest(since=NOW + 1), "since: that is still to come"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_with_its_field(question: UsageRequest, complaint: str) -> None:
    with pytest.raises(InvalidQuery) as refusal:
        check(question, NOW)
    assert str(refusal.value).startswith(complaint)


def test_open_ends_are_the_whole_of_the_books() -> None:
    check(UsageRequest(), NOW)
    check(UsageRequest(since=NOW, until=NOW + 10**9), NOW)
