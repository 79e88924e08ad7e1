from __future__ import annotations

from headrace.contracts.documents import model as d
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND


def test_what_is_not_said_has_the_defaults_of_the_interfaces():
    pool = d.Pool(name="a", selector={})
    policy = d.Policy(name="p", profiles=())
    assert (pool.backfill_for, pool.keep_for, pool.nomination_timeout) == (10 * MINUTE, HOUR, 5 * MINUTE)
    assert pool.allow_overcommit is False
    assert (policy.tenant, policy.weight, policy.max_pending, policy.reservation, policy.limit) == (
        "default",
        1,
        10_000,
        None,
        {},
    )
    assert policy.preemption == d.PreemptionTerms(
        on_preempt="requeue", callback_grace=60 * SECOND, term_grace=30 * SECOND, on_node_lost="requeue", suspend_max=4 * HOUR
    )


def test_an_empty_reservation_is_not_the_same_as_none():
    empty = d.Policy(name="p", profiles=(), reservation={})
    assert decode(encode(empty), d.Policy).reservation == {}
    assert decode(encode(d.Policy(name="p", profiles=())), d.Policy).reservation is None


def test_two_documents_never_share_their_empty_parts():
    first, second = d.Pool(name="a", selector={}), d.Pool(name="b", selector={})
    assert first.capacity is not second.capacity


def test_the_kinds_are_those_of_a_set_in_the_order_of_dependence():
    assert tuple(f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s" for kind in d.KINDS) == d.Documents.__struct_fields__
