"""What is otherwise in one state than in an earlier one."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.messages.history import StateChange
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import HOUR, SECOND
from headrace.domain.snapshots.snapshot import copy_of
from headrace.views import difference as module
from headrace.views.difference import difference
from headrace.views.visibility import ALL_TENANTS
from tests.unit.feed.conftest import AUTHOR


def changes(before, hall, tenant="acme"):
    return {(one.kind, one.name): one for one in difference(before, hall.state, tenant).changes}


def test_two_states_that_say_the_same_differ_in_nothing(hall):
    hall.admit(hall.job(1))
    assert difference(copy_of(hall.state), hall.state, ALL_TENANTS).changes == ()


def test_a_document_that_was_changed_says_in_which_fields(hall, policy_of):
    before = copy_of(hall.state)
    hall.append_facts(
        "governance", f.PolicyAppliedV1(author=AUTHOR, policy=policy_of("acme", limit={GPU: 3 * GPU_UNITS}, group="ops"))
    )
    hall.append_facts("governance", f.PolicyDeletedV1(author=AUTHOR, tenant="rival", name="dev"))
    found = changes(before, hall, ALL_TENANTS)
    assert found["policy", "acme/dev"] == StateChange(
        kind="policy", name="acme/dev", change="changed", fields={"group": ("dev", "ops"), "limit.gpu": ("", "3")}
    )
    assert found["policy", "rival/dev"].change == "removed"
    assert ("policy", "rival/dev") not in changes(before, hall, "acme")


def test_a_job_says_where_it_went_and_what_it_holds(hall):
    for number in (1, 2, 3):
        hall.admit(hall.job(number))
    hall.grant(hall.job(2), ("gpu01", "g1"))
    before = copy_of(hall.state)
    hall.grant(hall.job(1), ("gpu01", "g0"))
    hall.end(hall.job(2))
    hall.finish(hall.job(2))
    hall.admit(hall.job(4))
    found = changes(before, hall)
    assert found["job", hall.job(1)].fields == {
        "state": ("pending", "running"),
        "attempt": ("0", "1"),
        "holds": ("", "gpu01 g0"),
    }
    assert found["job", hall.job(2)].fields == {
        "state": ("running", "succeeded"),
        "holds": ("gpu01 g1", ""),
        "reason": ("", "exited"),
    }
    assert found["job", hall.job(4)].change == "added"
    assert ("job", hall.job(3)) not in found
    assert changes(before, hall, "rival").keys() == set()


def test_of_a_job_that_has_left_it_is_known_how_it_ended(hall):
    hall.admit(hall.job(1))
    hall.admit(hall.job(2))
    hall.grant(hall.job(2), ("gpu01", "g1"))
    hall.end(hall.job(2))
    hall.finish(hall.job(2))
    before = copy_of(hall.state)
    hall.append_facts("allocator", f.JobEndedV1(job=hall.job(1), attempt=0, state="cancelled", cause="cancelled"))
    hall.pass_time(2 * HOUR // SECOND)
    hall.append_facts("node.gpu01", f.NodeStoppedV1(node="gpu01", at=hall.now))
    found = changes(before, hall)
    assert found["job", hall.job(1)].fields == {"state": ("pending", "cancelled")}
    assert ("job", hall.job(2)) not in found
    assert found["node", "gpu01"].fields["state"] == ("ready", "stopped")
    assert found["use of pool", "hall"].fields["gpu usable"] == ("4", "0")


def test_very_many_are_cut_and_counted(hall, monkeypatch):
    monkeypatch.setattr(module, "CHANGES_MAX", 2)
    before = copy_of(hall.state)
    for number in range(1, 6):
        hall.admit(hall.job(number))
    found = difference(before, hall.state, "acme")
    assert (len(found.changes), found.more) == (2, 3)
