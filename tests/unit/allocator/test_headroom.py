"""Sets of requests: each question about all of them at once is answered as it would be one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.allocator.headroom import EVERY, Gauge, Needs, bits_of
from headrace.contracts.amounts import CPU, GPU, JOB, MEMORY
from headrace.domain.requests import intern_request
from headrace.domain.scopes import over_capacity, over_limit, over_reservation
from headrace.domain.state import PoolState, Scope

KEYS = st.sampled_from([GPU, CPU, MEMORY, JOB, "license/x"])
AMOUNTS = st.dictionaries(KEYS, st.integers(0, 6), max_size=4)
REQUESTS = st.lists(st.tuples(st.dictionaries(st.sampled_from([GPU, CPU, "license/x"]), st.integers(0, 4)), st.integers(1, 3)))
SCOPES = st.lists(
    st.builds(Scope, st.sampled_from(["policy", "tenant"]), st.just("a"), st.none() | AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS),
    max_size=3,
)
GOVERNED = st.frozensets(KEYS)


def numbered(asked) -> tuple[Needs, list]:
    known, needs = {}, Needs()
    requests = [intern_request(known, amounts, replicas, None) for amounts, replicas in asked]
    for request in requests:
        needs.number(request)
    return needs, needs.requests


def has(found: int, number: int) -> bool:
    return bool(found >> number & 1)


@pytest.mark.parametrize(("requests", "numbers"), [(0, []), (1, [0]), (0b101100, [2, 3, 5])])
def test_the_numbers_in_a_set(requests, numbers):
    assert list(bits_of(requests)) == numbers


def test_equal_requests_have_one_number():
    known, needs = {}, Needs()
    one, again, other = (intern_request(known, {GPU: units}, 1, None) for units in (1, 1, 2))

    assert [needs.number(request) for request in (one, again, other, one)] == [0, 0, 1, 0]
    assert needs.requests == [one, other]


def test_a_new_request_is_in_the_sets_that_are_worked_out_after_it():
    known, needs = {}, Needs()
    needs.number(intern_request(known, {GPU: 3}, 1, None))
    assert [needs.fitting(GPU, room) for room in (-1, 2, 3)] == [0, 0, 1]
    needs.number(intern_request(known, {GPU: 1}, 2, None))
    needs.number(intern_request(known, {CPU: 1}, 1, None))

    assert [needs.fitting(GPU, room) for room in (-1, 1, 2, 3)] == [0b100, 0b100, 0b110, 0b111]


def test_where_nothing_is_limited_everything_fits():
    assert Gauge.of_limits((), frozenset({GPU})).read(Needs()) == EVERY


def test_what_was_read_is_read_again_when_use_or_the_requests_have_changed():
    known, needs, scope = {}, Needs(), Scope("policy", "a", limit={GPU: 4, CPU: 1}, use={GPU: 1})
    gauge = Gauge.of_limits((scope,), frozenset({GPU}))
    needs.number(intern_request(known, {GPU: 3}, 1, None))
    seen = [(gauge.read(needs), gauge.rooms)]
    scope.use[GPU] = 2
    seen.append((gauge.read(needs), gauge.rooms))
    needs.number(intern_request(known, {GPU: 1}, 2, None))
    seen.append((gauge.read(needs), gauge.rooms))

    assert seen == [(1, [3]), (0, [2]), (0b10, [2])]


@pytest.mark.parametrize(
    ("uses", "keys", "over"),
    [
        pytest.param([{GPU: 3}], {GPU: 1}, True, id="above"),
        pytest.param([{GPU: 2}], {GPU: 1}, False, id="equality is inside"),
        pytest.param([{GPU: 3}], {CPU: 1}, False, id="above on another key"),
        pytest.param([{GPU: 3}], {JOB: 1}, False, id="above on a governed key only"),
        pytest.param([{GPU: 3}, {GPU: 1}], {GPU: 1}, False, id="inside any account is inside"),
        pytest.param([{CPU: 1, GPU: 3}, {CPU: 9}], {GPU: 1, CPU: 1}, True, id="above on one of the keys in all accounts"),
    ],
)
def test_whether_accounts_are_over_their_reservations(uses, keys, over):  # R24
    scopes = [Scope("policy", "a", {GPU: 2}, use=use) for use in uses]
    gauge = Gauge.of_reservations(scopes, frozenset({GPU, CPU}))
    gauge.read(Needs())

    assert gauge.is_over(keys) is over


@given(REQUESTS, SCOPES, GOVERNED)
def test_limits_are_tested_for_all_requests_as_for_each(asked, scopes, governed):  # R5, R7
    needs, requests = numbered(asked)
    found = Gauge.of_limits(scopes, governed).read(needs)

    assert [has(found, number) for number in range(len(requests))] == [
        over_limit(scopes, governed, request.total) is None for request in requests
    ]


@given(REQUESTS, SCOPES, GOVERNED, st.booleans())
def test_reservations_are_tested_for_all_requests_as_for_each(asked, scopes, governed, firm):  # R7, R17
    needs, requests = numbered(asked)
    found = Gauge.of_reservations(scopes, governed, firm=firm).read(needs)

    assert [has(found, number) for number in range(len(requests))] == [
        over_reservation(scopes, governed, request.total, firm=firm) is None for request in requests
    ]


@given(REQUESTS, AMOUNTS, AMOUNTS, GOVERNED)
def test_the_capacity_of_a_pool_is_tested_for_all_requests_as_for_each(asked, usable, use, governed):  # R5, R6
    needs, requests = numbered(asked)
    pool = PoolState(None, 1, usable=usable, use=use, governed=governed)
    found = needs.fitting_in(pool)

    assert [has(found, number) for number in range(len(requests))] == [
        over_capacity(pool, request.total) is None for request in requests
    ]
