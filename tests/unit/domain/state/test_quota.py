"""Which accounts a job touches, and whether it fits in them (R5, R7, R12, R17, R24)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.documents import model as d
from headrace.contracts.facts.levels import FIRST
from headrace.contracts.values.amounts import CPU, GPU, JOB, MEMORY, take_from
from headrace.domain.model.jobs import PolicyState, Scope
from headrace.domain.state import quota
from headrace.domain.state.quota import Shortfall
from tests.unit.domain.site import Site, gpus, policy, pool

GOVERNED = frozenset({GPU, CPU})


def account(reservation=None, *, limit=None, use=None, leased=None, firm=None, kind="policy", name="a") -> Scope:
    difference = dict(leased or {})
    take_from(difference, use or {})
    return Scope(kind, name, reservation, limit or {}, use or {}, firm or {}, difference)


def in_force(*blocks: str, share: str = "") -> tuple[Site, PolicyState]:
    """A policy with a reservation block in the scopes named, and a share of its tenant with (`reserved`) or without (`limited`) one."""
    written = {
        "reservation": gpus(1) if "wide" in blocks else None,
        "per_pool": {"hall": d.Scope(reservation=gpus(2) if "hall" in blocks else None, limit=gpus(3))},
    }
    has = d.Share(pool="hall", reservation=gpus(4) if share == "reserved" else None, limit=gpus(5))
    site = Site(policy(**written), tenants=(d.Tenant(name="default", shares=(has,) if share else ()),))
    return site, site.state.policies["default", "dev"]


WIDE, HERE, SHARE = "policy default/dev", "policy default/dev in pool hall", "tenant default in pool hall"


@pytest.mark.parametrize(
    ("blocks", "share", "touched", "reserved", "side"),
    [
        pytest.param((), "", [WIDE, HERE], [WIDE], [WIDE], id="no block at all: policy-wide, with 0"),
        pytest.param(("wide",), "", [WIDE, HERE], [WIDE], [WIDE], id="a policy-wide block"),
        pytest.param(("hall",), "", [WIDE, HERE], [HERE], [HERE], id="a block for the pool"),
        pytest.param(("wide", "hall"), "", [WIDE, HERE], [WIDE, HERE], [WIDE, HERE], id="both hold at once"),
        pytest.param((), "limited", [WIDE, HERE, SHARE], [WIDE], [WIDE], id="a share without a block has limits only"),
        pytest.param(("hall",), "reserved", [WIDE, HERE, SHARE], [HERE, SHARE], [HERE], id="a share with a block stands above"),
    ],
)
def test_the_accounts_that_are_touched_and_those_at_which_reservation_tests_look(blocks, share, touched, reserved, side):  # R7
    site, dev = in_force(*blocks, share=share)
    assert [scope.name for scope in quota.scopes_of(site.state, dev, "hall")] == touched
    assert [scope.name for scope in quota.with_reservation(site.state, dev, "hall")] == reserved
    assert [scope.name for scope in quota.policy_side(dev, "hall")] == side


@pytest.mark.parametrize(
    ("blocks", "lends", "formerly"),
    [
        pytest.param((), [WIDE], [WIDE], id="no block at all"),
        pytest.param(("wide",), [WIDE], [WIDE], id="a policy-wide block"),
        pytest.param(("hall",), [HERE], [HERE], id="a block for the pool"),
        pytest.param(("wide", "hall"), [HERE], [WIDE, HERE], id="the pool's own before the policy-wide one"),
    ],
)
def test_where_use_in_a_pool_is_borrowed_when_it_is_above(blocks, lends, formerly):  # R24
    site, dev = in_force(*blocks)
    assert [scope.name for scope in quota.lending_side(site.state, dev, "hall")] == lends
    site.state.terms.level = FIRST
    assert [scope.name for scope in quota.lending_side(site.state, dev, "hall")] == formerly


@pytest.mark.parametrize(
    ("use", "leased", "used"),
    [
        pytest.param({GPU: 2}, {GPU: 2}, (2, 2, 2), id="nobody yields and nothing is nominated"),
        pytest.param({GPU: 1}, {GPU: 3}, (1, 3, 3), id="what yields is held until it has left"),
        pytest.param({GPU: 3}, {GPU: 1}, (3, 1, 3), id="what is nominated is not held yet"),
    ],
)
def test_what_a_limit_is_held_against(use, leased, used):  # R17
    asked = tuple(
        quota.counted_use(account(use=use, leased=leased), GPU, against)
        for against in (quota.WILL_BE, quota.IS_HELD, quota.BOTH)
    )
    assert asked == used
    short = quota.over_limit([account(limit={GPU: 3}, use=use, leased=leased)], GOVERNED, {GPU: 1}, against=quota.BOTH)
    assert (short and short.used) == (3 if max(used) == 3 else None)


def test_below_the_level_of_the_amendment_limits_look_at_what_will_be_alone():  # R17
    site = Site()
    assert (quota.to_grant(site.state), quota.to_start(site.state)) == (quota.BOTH, quota.IS_HELD)
    site.state.terms.level = FIRST
    assert (quota.to_grant(site.state), quota.to_start(site.state)) == (quota.WILL_BE, quota.WILL_BE)


def test_a_policy_with_a_block_for_one_pool_has_no_reservation_in_another():  # R7
    site, dev = in_force("hall")
    assert quota.policy_side(dev, "annex") == (dev.wide,)
    asked = quota.over_reservation(quota.with_reservation(site.state, dev, "annex"), GOVERNED, gpus(1))
    assert asked == Shortfall(dev.wide, GPU, 0, gpus(1)[GPU], 0)


def test_an_account_in_a_pool_is_opened_once_and_without_a_block_it_limits_nothing():
    _, dev = in_force()
    annex = quota.open_scope(dev, "annex")
    assert quota.open_scope(dev, "annex") is quota.policy_scope(dev, "annex") is annex
    assert (annex.kind, annex.name, annex.reservation, annex.limit) == ("policy", "policy default/dev in pool annex", None, {})


def test_a_look_at_an_account_opens_none():
    _, dev = in_force()
    annex = quota.policy_scope(dev, "annex")
    assert (annex.name, annex.reservation, annex.limit) == ("policy default/dev in pool annex", None, {})
    assert "annex" not in dev.scopes


def test_an_account_in_a_pool_begins_with_the_block_as_written():
    document = policy(per_pool={"hall": d.Scope(reservation=gpus(2), limit=gpus(3))})
    dev = PolicyState(document, 1, account())
    scope = quota.policy_scope(dev, "hall")
    assert (scope.reservation, scope.limit) == (gpus(2), gpus(3))
    assert scope.limit is not document.per_pool["hall"].limit, "an edit of the account is no edit of the document"


@pytest.mark.parametrize(
    ("accounts", "asked", "firm", "short"),
    [
        pytest.param([account({GPU: 4})], {GPU: 4}, False, None, id="equality fits"),
        pytest.param([account({GPU: 4})], {GPU: 5}, False, (0, GPU, 0, 5, 4), id="one more does not"),
        pytest.param([account({GPU: 4}, use={GPU: 3})], {GPU: 2}, False, (0, GPU, 3, 2, 4), id="use counts, not leases"),
        pytest.param([account({GPU: 4}, leased={GPU: 4})], {GPU: 4}, False, None, id="what yields counts no more"),
        pytest.param([account({GPU: 4})], {GPU: 1, CPU: 1}, False, (0, CPU, 0, 1, 0), id="a governed key not named has 0"),
        pytest.param([account({GPU: 4})], {GPU: 1, MEMORY: 9}, False, None, id="a key that is not governed is not looked at"),
        pytest.param([account(use={GPU: 9})], {GPU: 0}, False, None, id="none of a key is always inside"),
        pytest.param([account()], {GPU: 1}, False, (0, GPU, 0, 1, 0), id="no block is a reservation of 0"),
        pytest.param(
            [account({GPU: 9}), account({GPU: 4})], {GPU: 5}, False, (1, GPU, 0, 5, 4), id="every account has to hold"
        ),
        pytest.param([account({GPU: 4}, use={GPU: 4}, firm={GPU: 1})], {GPU: 3}, True, None, id="firm work sees firm use only"),
        pytest.param(
            [account({GPU: 4}, firm={GPU: 2})], {GPU: 3}, True, (0, GPU, 2, 3, 4), id="and not more than the reservation"
        ),
    ],
)
def test_a_request_against_reservations(accounts, asked, firm, short):  # R7, R17
    expected = short and Shortfall(accounts[short[0]], *short[1:])
    assert quota.over_reservation(accounts, GOVERNED, asked, firm=firm) == expected


TENANT = account(limit={GPU: 4}, kind="tenant")


@pytest.mark.parametrize(
    ("accounts", "asked", "beyond", "short"),
    [
        pytest.param([account(limit={GPU: 4})], {GPU: 4}, False, None, id="equality fits"),
        pytest.param([account(limit={GPU: 4}, use={GPU: 2})], {GPU: 3}, False, (0, GPU, 2, 3, 4), id="one more does not"),
        pytest.param([account(limit={GPU: 4})], {GPU: 1, CPU: 99}, False, None, id="a key not named has no limit of its own"),
        pytest.param([account(limit={GPU: 0})], {GPU: 1}, False, (0, GPU, 0, 1, 0), id="an explicit 0 forbids"),
        pytest.param([account(limit={GPU: 0})], {GPU: 0, CPU: 1}, False, None, id="but not those who ask for none of it"),
        pytest.param([account(limit={MEMORY: 1})], {MEMORY: 2}, False, None, id="a key that is not governed is not looked at"),
        pytest.param([account(limit={GPU: 4})], {GPU: 5}, True, None, id="a member who may exceed the policy's limit"),
        pytest.param([account(limit={GPU: 4}), TENANT], {GPU: 5}, True, (1, GPU, 0, 5, 4), id="may not exceed the tenant's"),
    ],
)
def test_a_request_against_limits(accounts, asked, beyond, short):  # R5, R7, R12
    expected = short and Shortfall(accounts[short[0]], *short[1:])
    assert quota.over_limit(accounts, GOVERNED, asked, beyond=beyond) == expected


def supply(usable, *, leased=None, use=None):
    difference = dict(leased or {})
    take_from(difference, use or {})
    return SimpleNamespace(governed=GOVERNED, usable=usable, use=use or {}, leased_minus_use=difference)


@pytest.mark.parametrize(
    ("has", "asked", "short"),
    [
        pytest.param(supply({GPU: 4}), {GPU: 4}, None, id="all of it"),
        pytest.param(supply({GPU: 4}), {GPU: 5}, (GPU, 4), id="more than there is"),
        pytest.param(supply({GPU: 4}, leased={GPU: 3}), {GPU: 2}, (GPU, 1), id="leases that yield still hold what they hold"),
        pytest.param(supply({GPU: 4}, use={GPU: 3}), {GPU: 2}, (GPU, 1), id="what is nominated is spoken for"),
        pytest.param(supply({GPU: 2}, leased={GPU: 3}), {GPU: 1}, (GPU, 0), id="after losses there is nothing, not less"),
        pytest.param(supply({GPU: 2}, leased={GPU: 3}), {GPU: 0, CPU: 0}, None, id="which matters to none who ask for none"),
        pytest.param(supply({GPU: 4}), {JOB: 1, MEMORY: 9}, None, id="keys that bind only where a capacity names them"),
        pytest.param(supply({GPU: 4}), {CPU: 1}, (CPU, 0), id="a governed key of which there is none"),
        pytest.param(supply({GPU: 4}), {"license/x": 1}, ("license/x", 0), id="a key that no capacity names has capacity 0"),
    ],
)
def test_a_request_against_the_capacity_of_a_pool(has, asked, short):  # R5, R6
    assert quota.over_capacity(has, asked) == short


def test_custom_keys_of_a_pool_are_counted_like_any_other():
    site = Site(pools=(pool(capacity={"license/x": 2}),))
    hall = site.state.pools["hall"]
    assert [quota.over_capacity(hall, {"license/x": asked}) for asked in (2, 3)] == [None, ("license/x", 2)]


@pytest.mark.parametrize(
    ("scope", "above"),
    [
        pytest.param(account({GPU: 4}, leased={GPU: 6}), 2, id="above the reservation"),
        pytest.param(account({GPU: 4}, leased={GPU: 3}), 0, id="inside it"),
        pytest.param(account(leased={GPU: 3}), 3, id="without a block all of it"),
        pytest.param(account({CPU: 4}, leased={GPU: 3}), 3, id="a block that does not name the key"),
    ],
)
def test_what_is_borrowed(scope, above):  # R17
    assert quota.borrowed(scope, GPU) == above


@pytest.mark.parametrize(
    ("side", "above"),
    [
        pytest.param([account({GPU: 4}, use={GPU: 5})], True, id="part of it is borrowed"),
        pytest.param([account({GPU: 4}, use={GPU: 4})], False, id="equality is inside"),
        pytest.param([account({GPU: 4}, use={GPU: 4}, leased={GPU: 6})], False, id="what already yields does not count"),
        pytest.param(
            [account({GPU: 4}, use={GPU: 5}), account({GPU: 9}, use={GPU: 5})], False, id="inside any account is inside"
        ),
        pytest.param([account(use={GPU: 1})], True, id="without a block any use is above"),
    ],
)
def test_whether_a_side_is_above_its_reservation(side, above):  # R24
    assert quota.is_above(side, GPU) is above


AMOUNTS = st.dictionaries(st.sampled_from([GPU, CPU, MEMORY]), st.integers(0, 5))
ACCOUNTS = st.lists(
    st.builds(
        Scope, st.sampled_from(["policy", "tenant"]), st.just("a"), st.none() | AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS
    ),
    max_size=3,
)


@given(ACCOUNTS, AMOUNTS, st.booleans())
def test_a_request_fits_inside_exactly_if_no_account_would_hold_more_than_is_reserved(accounts, asked, firm):
    def after(scope, key):
        return (scope.firm if firm else scope.use).get(key, 0) + asked[key]

    fits = all(
        after(scope, key) <= (scope.reservation or {}).get(key, 0)
        for scope in accounts
        for key in asked
        if asked[key] and key in GOVERNED
    )
    short = quota.over_reservation(accounts, GOVERNED, asked, firm=firm)
    assert (short is None) == fits
    assert short is None or short.used + short.asked > short.ceiling


@given(ACCOUNTS, AMOUNTS, st.booleans())
def test_a_request_is_within_limits_exactly_if_no_account_that_names_the_key_would_hold_more(accounts, asked, beyond):
    fits = all(
        scope.use.get(key, 0) + asked[key] <= scope.limit[key]
        for scope in accounts
        for key in asked
        if asked[key] and key in GOVERNED and key in scope.limit and not (beyond and scope.kind == "policy")
    )
    short = quota.over_limit(accounts, GOVERNED, asked, beyond=beyond)
    assert (short is None) == fits
    assert short is None or short.used + short.asked > short.ceiling


@given(AMOUNTS, AMOUNTS, AMOUNTS, st.sampled_from([GPU, CPU]))
def test_what_a_pool_has_free_is_what_may_be_asked_of_it_and_no_more(usable, leased, use, key):
    has = supply(usable, leased=leased, use=use)
    free = quota.free_of(has, key)
    assert quota.over_capacity(has, {key: free}) is None
    assert quota.over_capacity(has, {key: free + 1}) == (key, free)
