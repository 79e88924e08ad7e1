"""Sets of requests: each question about all of them at once is answered as it would be one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.allocator.request_bitsets import EVERY, Ceiling, Needs, QuotaFits, bits_of
from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import CPU, GPU, JOB, MEMORY
from headrace.domain.model.jobs import Scope
from headrace.domain.model.requests import intern_request
from headrace.domain.state.pools import PoolState
from headrace.domain.state.quota import BOTH, over_capacity, over_limit, over_reservation

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


@pytest.mark.parametrize(("has_spot", "numbers"), [(False, [0, 0, 1]), (True, [0, 1, 2])])
def test_where_no_node_is_a_spot_instance_requests_that_need_another_node_have_the_number_of_those_that_do_not(
    has_spot, numbers
):  # R38
    known, needs = {}, Needs(has_spot=has_spot)
    any_node, steady = (intern_request(known, {GPU: 1}, 1, None, steady=steady) for steady in (False, True))
    other = intern_request(known, {GPU: 1, "license/x": 1}, 1, None)

    assert [needs.number(request) for request in (any_node, steady, other)] == numbers
    assert needs.number(steady, apart=True) != needs.number(any_node)


def test_a_new_request_is_in_the_sets_that_are_worked_out_after_it():
    known, needs = {}, Needs()
    needs.number(intern_request(known, {GPU: 3}, 1, None))
    assert [needs.fitting(GPU, free) for free in (-1, 2, 3)] == [0, 0, 1]
    needs.number(intern_request(known, {GPU: 1}, 2, None))
    needs.number(intern_request(known, {CPU: 1}, 1, None))

    assert [needs.fitting(GPU, free) for free in (-1, 1, 2, 3)] == [0b100, 0b100, 0b110, 0b111]


def test_where_nothing_is_limited_everything_fits():
    gauges = QuotaFits((), (), (), frozenset({GPU}), holds=True)

    assert gauges.read(Needs()) == 0
    assert (gauges.limit, gauges.inside, gauges.firm, gauges.above) == (EVERY, EVERY, EVERY, frozenset())


def test_what_was_read_is_read_again_when_use_or_the_requests_have_changed():
    known, needs, scope = {}, Needs(), Scope("policy", "a", limit={GPU: 4, CPU: 1}, use={GPU: 1})
    gauges = QuotaFits((scope,), (), (), frozenset({GPU}), holds=True)
    needs.number(intern_request(known, {GPU: 3}, 1, None))
    seen = [(gauges.read(needs) & 1, gauges.limit)]
    scope.use[GPU] = 2
    seen += [(gauges.read(needs), gauges.limit), (gauges.read(needs), gauges.limit)]
    needs.number(intern_request(known, {GPU: 1}, 2, None))
    seen.append((gauges.read(needs), gauges.limit))

    assert seen == [(0, 1), (1, 0), (0, 0), (0b10, 0b10)]


@pytest.mark.parametrize(
    ("uses", "over"),
    [
        pytest.param([{GPU: 3}], {GPU}, id="above"),
        pytest.param([{GPU: 2}], set(), id="equality is inside"),
        pytest.param([{GPU: 3, JOB: 1}], {GPU}, id="above on a governed key only"),
        pytest.param([{GPU: 3}, {GPU: 1}], set(), id="inside any account is inside"),
        pytest.param([{CPU: 1, GPU: 3}, {CPU: 9}], {CPU}, id="above on one of the keys in all accounts"),
    ],
)
def test_on_which_keys_accounts_are_over_their_reservations(uses, over):  # R24
    scopes = [Scope("policy", "a", {GPU: 2}, use=use) for use in uses]
    gauges = QuotaFits((), scopes, scopes, frozenset({GPU, CPU}), holds=True)
    gauges.read(Needs())

    assert gauges.above == over


def test_borrowed_is_what_is_above_in_the_lending_accounts_alone():  # R24
    wide, here = Scope("policy", "a", {GPU: 9}, use={GPU: 3}), Scope("policy", "a here", {GPU: 2}, use={GPU: 3})
    gauges = QuotaFits((), (wide, here), (here,), frozenset({GPU}), holds=True)
    gauges.read(Needs())

    assert gauges.above == {GPU}


@pytest.mark.parametrize(
    ("holds", "limits"), [pytest.param(True, [0, 1], id="as amended"), pytest.param(False, [1, 1], id="before the amendment")]
)
def test_what_yields_counts_until_it_has_left_for_a_grant_and_no_more_for_a_plan(holds, limits):  # R17
    known, needs = {}, Needs()
    needs.number(intern_request(known, {GPU: 2}, 1, None))
    scope = Scope("policy", "a", limit={GPU: 4}, use={GPU: 2}, leased_minus_use={GPU: 2})
    gauges = QuotaFits((scope,), (), (), frozenset({GPU}), holds=holds)
    gauges.read(needs)
    seen = [gauges.limit & 1]
    del scope.leased_minus_use[GPU]
    gauges.read(needs)

    assert [*seen, gauges.limit & 1] == limits
    assert gauges.planned & 1 == 1


@given(REQUESTS, SCOPES, SCOPES, GOVERNED, st.lists(AMOUNTS, max_size=2))
def test_accounts_are_tested_for_all_requests_as_for_each(asked, limiting, reserving, governed, apart):  # R5, R7, R17
    needs, requests = numbered(asked)
    for scope, amounts in zip(limiting, apart, strict=False):
        scope.leased_minus_use = amounts
    gauges = QuotaFits(limiting, reserving, reserving, governed, holds=True)
    gauges.read(needs)

    for number, request in enumerate(requests):
        assert has(gauges.planned, number) is (over_limit(limiting, governed, request.total) is None)
        assert has(gauges.limit, number) is (over_limit(limiting, governed, request.total, against=BOTH) is None)
        assert has(gauges.inside, number) is (over_reservation(reserving, governed, request.total) is None)
        assert has(gauges.firm, number) is (over_reservation(reserving, governed, request.total, firm=True) is None)


@given(REQUESTS, AMOUNTS, st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=3), GOVERNED)
def test_the_capacity_of_a_pool_is_tested_for_all_requests_as_for_each(asked, usable, uses, governed):  # R5, R6
    needs, requests = numbered(asked)
    pool = PoolState(None, 1, usable=usable, governed=governed)
    ceiling = Ceiling(pool)

    for pool.use, pool.leased_minus_use in uses:
        found = ceiling.read(needs)
        assert [has(found, number) for number in range(len(requests))] == [
            over_capacity(pool, request.total) is None for request in requests
        ]


def test_requests_that_differ_in_topology_have_numbers_of_their_own():  # R40
    needs, known = Needs(), {}
    topologies = (None, d.Topology(require="rack"), d.Topology(require="block"), d.Topology(prefer="rack"))
    profiles = [d.Profile(name="x", request={}, pools=(), topology=topology) for topology in topologies]
    assert [needs.number(intern_request(known, {GPU: 1}, 2, profile)) for profile in profiles] == [0, 1, 2, 3]
