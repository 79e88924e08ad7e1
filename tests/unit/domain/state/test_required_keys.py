"""Whose texts have to be readable."""

from headrace.contracts import facts as f
from headrace.domain.state.required_keys import needs_key, waiting_for_key, who_needs_keys
from tests.unit.allocator.history import History, policy


def test_people_with_jobs_that_have_not_ended_need_their_keys_unless_they_were_erased():
    history = History(policy("ml", 2))
    history.node()
    ended = history.run("ml/one", user="cleo")
    history.end(ended, 0)
    history.allocate()
    for user in ("ann", "ann", "bob", "dan"):
        history.admit("ml/one", user=user)
    history.append_facts(f.UserErasedV1(author="default.admin", tenant="default", handle="dan", pseudonym="erased-1"))
    assert ended.state == "succeeded"
    assert who_needs_keys(history.state) == {("default", "ann"): 2, ("default", "bob"): 1}
    assert [needs_key(history.state, f"default.{user}") for user in ("ann", "bob", "cleo", "dan")] == [True, True, False, False]


def test_those_that_were_there_when_it_was_found_missing_wait_for_it():
    history = History(policy("ml", 2))
    history.admit("ml/one")
    history.append_facts(f.TextsLockedV1(tenant="default", handle="ann"))
    history.admit("ml/one")
    assert (waiting_for_key(history.state, "default", "ann"), waiting_for_key(history.state, "default", "bob")) == (1, 0)
    assert needs_key(history.state, "default.ann")
