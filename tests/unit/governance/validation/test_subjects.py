"""One subject is one person in the whole installation, and the provider's word for it is on record."""

from __future__ import annotations

from headrace.contracts import facts as f

TENANTS = "tenants: [{name: acme}, {name: other}]"
ANN = "users: [{tenant: acme, handle: ann, subject: corp|1}]"


def raised(installation):
    installation.append_facts(f.InstallationLevelV1(level=2, release="0.2.0"))
    installation.write(TENANTS)
    return installation


def test_a_subject_that_is_another_users_is_refused_and_only_the_provider_is_told_whose_it_is(installation):
    raised(installation).write(ANN)
    another_place, here = (f"users: [{{tenant: {tenant}, handle: eve, subject: corp|1}}]" for tenant in ("other", "acme"))
    way_out = "one subject is one person here: take it out there first"
    ours = f"users[0].subject: it is the subject of user acme/ann; {way_out}"
    hidden = f"users[0].subject: it is the subject of a user in another tenant; ask the provider; {way_out}"

    assert installation.plan(another_place, vouches=True).errors == (ours,)
    assert installation.plan(another_place, vouches=False).errors == (hidden,)
    assert installation.plan(here, vouches=False).errors == (ours,)


def test_two_users_of_one_set_do_not_share_a_subject(installation):
    both = "users: [{tenant: acme, handle: ann, subject: corp|1}, {tenant: other, handle: eve, subject: corp|1}]"
    assert len(raised(installation).plan(both).errors) == 2


def test_what_was_written_earlier_is_not_refused_again(installation):
    raised(installation).write(
        "users: [{tenant: acme, handle: ann, subject: corp|1}, {tenant: other, handle: eve, subject: corp|1}]"
    )
    assert installation.plan("users: [{tenant: acme, handle: ann, subject: corp|1, email: a@b.example}]").errors == ()


def vouched(installation, text, **options):
    plan = installation.plan(text, **options)
    installation.append_facts(*plan.facts)
    return [fact.vouched for fact in plan.facts]


def test_the_provider_vouches_by_applying_a_document_and_the_word_stays_while_the_subject_does(installation):
    raised(installation)
    assert vouched(installation, ANN) == [False]
    assert installation.plan(ANN, vouches=True).changes[0].fields == ("subject: the provider vouches for it now",)
    assert vouched(installation, ANN, vouches=True) == [True]
    assert vouched(installation, ANN, vouches=True) == []
    assert vouched(installation, ANN.replace("}", ", email: a@b.example}")) == [True]
    assert vouched(installation, ANN.replace("corp|1", "corp|2")) == [False]
    assert vouched(installation, "users: [{tenant: acme, handle: bob}]", vouches=True) == [False]


def test_before_level_2_nothing_is_said_that_release_0_1_0_does_not_know(installation):
    installation.write(TENANTS)
    assert vouched(installation, ANN, vouches=True) == [False]
    assert installation.plan(ANN, vouches=True).facts == ()
