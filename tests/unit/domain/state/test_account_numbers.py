"""Whose number is which: handed out once, never again, and kept by those who had one alone."""

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group, Tenant, User
from headrace.contracts.values.account_numbers import FIRST, former_number
from headrace.domain.state.account_numbers import next_number, retire
from headrace.domain.state.state import State
from tests.unit.domain.hall import Hall

ALIKE = ("u6772", "u21864")
RAISED = f.InstallationLevelV1(level=2, release="0.2.0")


def numbered(tenant, user, number):
    return f.AccountNumberedV1(tenant=tenant, user=user, number=number)


def below_level_2():
    hall = Hall()
    hall.state.terms.level = 1
    return hall


def test_the_next_number_is_one_that_no_user_has_or_had():
    state = State()
    assert next_number(state) == FIRST
    state.accounts = {("acme", "ann"): FIRST, ("acme", "bob"): FIRST + 3}
    state.retired_accounts = {FIRST + 4}
    assert next_number(state, (FIRST + 5,)) == FIRST + 6
    assert state.accounts["acme", "ann"] == FIRST


def test_a_number_is_a_users_from_the_fact_on_and_no_later_fact_changes_it():
    hall = Hall()
    hall.append_facts("admission", numbered("acme", "ann", FIRST))
    hall.append_facts("admission", numbered("acme", "ann", FIRST + 1))
    assert hall.state.accounts == {("acme", "ann"): FIRST}


def test_after_an_erasure_or_with_a_new_tenant_of_the_same_name_a_handle_is_given_another_number():
    hall = Hall()
    hall.append_facts(
        "admission", numbered("acme", "ann", FIRST), numbered("acme", "bob", FIRST + 1), numbered("other", "ann", FIRST + 2)
    )
    hall.append_facts("governance", f.UserErasedV1(author="a.b", tenant="acme", handle="ann", pseudonym="erased-1"))
    assert (hall.state.accounts.get(("acme", "ann")), hall.state.retired_accounts) == (None, {FIRST})
    hall.append_facts("governance", f.TenantDeletedV1(author="a.b", name="acme"))
    assert hall.state.accounts == {("other", "ann"): FIRST + 2}
    assert next_number(hall.state) == FIRST + 3


def test_whose_jobs_have_not_ended_keeps_the_number():
    hall = Hall()
    hall.policy("p")
    job = hall.admit("p", "j")
    hall.append_facts("admission", numbered(job.tenant, job.user, FIRST))
    retire(hall.state, job.tenant)
    assert hall.state.accounts == {(job.tenant, job.user): FIRST}


def test_who_was_here_before_the_level_was_raised_keeps_the_number_of_the_files_that_nodes_have():
    hall = below_level_2()
    hall.policy("p")
    job = hall.admit("p", "j")
    hall.append_facts(
        "governance",
        f.TenantAppliedV1(author="a.b", tenant=Tenant(name="acme", admins=("lea",))),
        f.UserAppliedV1(author="a.b", user=User(tenant="acme", handle="carla")),
        f.GroupAppliedV1(author="a.b", group=Group(tenant="acme", name="all", members=("ann",), service_accounts=("ci",))),
    )
    assert hall.state.accounts == {}
    hall.append_facts("governance", RAISED)
    users = {(job.tenant, job.user), *(("acme", handle) for handle in ("lea", "carla", "ann", "ci"))}
    assert hall.state.accounts == {user: former_number(*user) for user in users}
    hall.append_facts("governance", f.UserAppliedV1(author="a.b", user=User(tenant="acme", handle="late")), RAISED)
    assert ("acme", "late") not in hall.state.accounts


def test_of_two_who_had_the_same_number_neither_keeps_it():
    hall = below_level_2()
    assert former_number("acme", ALIKE[0]) == former_number("acme", ALIKE[1])
    for handle in ALIKE:
        hall.append_facts("governance", f.UserAppliedV1(author="a.b", user=User(tenant="acme", handle=handle)))
    hall.append_facts("governance", RAISED)
    first, second = (hall.state.accounts["acme", handle] for handle in ALIKE)
    shared = former_number("acme", ALIKE[0])
    assert len({first, second, shared}) == 3
    assert shared in hall.state.retired_accounts
