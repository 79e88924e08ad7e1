from headrace.contracts.values.account_numbers import COUNT, FIRST, former_number


def test_the_former_number_of_a_user_is_the_one_that_release_0_1_0_gave():
    assert former_number("acme", "alice") == 2132224254
    assert FIRST <= former_number("acme", "bob") < FIRST + COUNT


def test_two_people_may_have_had_the_same():
    """Found in 20,000 tries for any two; for one of them, in a minute and a half."""
    assert former_number("acme", "u6772") == former_number("acme", "u21864")
