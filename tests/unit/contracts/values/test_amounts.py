from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.values.amounts import (
    AMOUNT_MAX,
    GPU_UNITS,
    AmountError,
    add_to,
    format_amount,
    format_amounts,
    gpus_first,
    is_key,
    parse_amount,
    plus,
    take_from,
    times,
)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("gpu", "1", 126_000),
        ("gpu", "0.5", 63_000),
        ("gpu", "1/7", 18_000),
        ("gpu", "9/14", 81_000),
        ("gpu", "0.001", 126),
        ("gpu", "0", 0),
        ("gpu", 3, 378_000),
        ("gpu:H100-80GB", "1/7", 18_000),
        ("cpu", "4", 4_000),
        ("cpu", "0.25", 250),
        ("cpu", "500m", 500),
        ("memory", "64GiB", 65_536),
        ("memory", "1.5 GiB", 1_536),
        ("memory", "512Mi", 512),
        ("memory", "1T", 1_048_576),
        ("memory", "2048KiB", 2),
        ("memory", "0", 0),
        ("job", "10", 10),
        ("license/abaqus", " 4 ", 4),
    ],
)
def test_amounts_are_read_as_people_write_them(key, text, value):
    assert parse_amount(key, text) == value


@pytest.mark.parametrize(
    ("key", "text", "complaint"),
    [
        ("gpu", "0.3333", "0.3333 gpu is not exact; write a fraction of at most three decimals, or 1/n with n up to 10"),
        (
            "gpu:A100",
            "0.3333",
            "0.3333 gpu:A100 is not exact; write a fraction of at most three decimals, or 1/n with n up to 10",
        ),
        ("gpu", "1/11", "1/11 gpu is not exact; write a fraction of at most three decimals, or 1/n with n up to 10"),
        ("gpu", "1/0", "invalid amount of gpu '1/0': use a number such as 2, 0.5 or 1/7"),
        ("gpu", "-1", "invalid amount of gpu '-1': use a number such as 2, 0.5 or 1/7"),
        ("gpu", "1e3", "invalid amount of gpu '1e3': use a number such as 2, 0.5 or 1/7"),
        ("gpu", "nan", "invalid amount of gpu 'nan': use a number such as 2, 0.5 or 1/7"),
        ("gpu", "", "invalid amount of gpu '': use a number such as 2, 0.5 or 1/7"),
        ("gpu", "١", "invalid amount of gpu '١': use a number such as 2, 0.5 or 1/7"),
        ("cpu", "0.5m", "0.5m cpu is not exact; write at most three decimals, or whole millicores"),
        ("cpu", "0.0001", "0.0001 cpu is not exact; write at most three decimals, or whole millicores"),
        ("cpu", "4 cores", "invalid amount of cpu '4 cores': use a number such as 2, 0.5 or 500m"),
        ("memory", "64GB", "memory is counted in powers of 1024; write 64GiB"),
        ("memory", "64", "memory 64 has no unit; write 64MiB or 64GiB"),
        ("memory", "1KiB", "memory 1KiB is not exact; write a whole number of MiB"),
        ("memory", "much", "invalid amount of memory 'much': use 64GiB or 512MiB"),
        ("license/abaqus", "0.5", "0.5 license/abaqus is not exact; write a whole number"),
        ("job", "9" * 18, f"{'9' * 18} is too large for job"),
        ("gpu", "9" * 19, f"invalid amount of gpu {'9' * 19!r}: use a number such as 2, 0.5 or 1/7"),
    ],
)
def test_what_is_not_exact_is_refused_with_the_way_out(key, text, complaint):
    with pytest.raises(AmountError) as refused:
        parse_amount(key, text)
    assert str(refused.value) == complaint


def test_seven_sevenths_are_one_gpu_and_so_are_all_the_fractions_people_use():
    for parts in (*range(1, 11), 16):
        assert parse_amount("gpu", f"1/{parts}") * parts == GPU_UNITS
    assert parse_amount("gpu", "0.48") + parse_amount("gpu", "0.52") == GPU_UNITS


@given(st.sampled_from(["gpu", "cpu", "memory", "job", "license/x"]), st.integers(0, AMOUNT_MAX))
def test_writing_an_amount_and_reading_it_gives_the_same_amount(key, value):
    assert parse_amount(key, format_amount(key, value)) == value


@given(st.fractions(0, 1000, max_denominator=1000))
def test_a_fraction_is_read_exactly_or_refused(fraction):
    exact = Fraction(fraction) * GPU_UNITS
    text = f"{fraction.numerator}/{fraction.denominator}"
    if exact.denominator == 1:
        assert parse_amount("gpu", text) == exact.numerator
    else:
        with pytest.raises(AmountError):
            parse_amount("gpu", text)


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("gpu", 126_000, "1"),
        ("gpu", 63_000, "0.5"),
        ("gpu", 18_000, "1/7"),
        ("gpu", 1_260_000, "10"),
        ("gpu", 346_500, "2.75"),
        ("gpu", -63_000, "-0.5"),
        ("cpu", 1_500, "1.5"),
        ("memory", 65_536, "64GiB"),
        ("memory", 1_536, "1536MiB"),
        ("memory", 2_097_152, "2TiB"),
        ("memory", 0, "0MiB"),
        ("job", 4, "4"),
    ],
)
def test_amounts_are_shown_as_people_write_them(key, value, text):
    assert format_amount(key, value) == text


def test_several_amounts_are_shown_in_the_order_of_their_keys():
    assert format_amounts({"gpu": 378_000, "cpu": 4_000}) == "cpu 4, gpu 3"
    assert format_amounts({}) == "nothing"


@pytest.mark.parametrize("keys", [("memory", "gpu", "cpu"), ("cpu", "memory", "gpu")])
def test_gpus_come_first_and_the_rest_by_name_whatever_the_order_of_a_dict(keys):
    assert gpus_first(dict.fromkeys(keys, 7)) == [("gpu", 7), ("cpu", 7), ("memory", 7)]


def test_sums_leave_their_operands_alone():
    left, right = {"gpu": 1, "cpu": 2}, {"cpu": 3, "job": 4}
    assert plus(left, right) == {"gpu": 1, "cpu": 5, "job": 4}
    assert times(left, 3) == {"gpu": 3, "cpu": 6}
    assert (left, right) == ({"gpu": 1, "cpu": 2}, {"cpu": 3, "job": 4})


def test_what_is_added_and_taken_again_leaves_no_trace():
    total = {"gpu": 1}
    add_to(total, {"gpu": 2, "cpu": 5})
    assert total == {"gpu": 3, "cpu": 5}
    take_from(total, {"gpu": 2, "cpu": 5})
    assert total == {"gpu": 1}


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        *[("gpu", True), ("license/abaqus", True), ("Gpu", False), ("a b", False), ("/x", False)],
        *[("gpu:H100-80GB", True), ("gpu:", False), ("cpu:EPYC", False), ("gpu:A+B", False)],
    ],
)
def test_a_resource_key_is_a_name_or_a_name_in_a_group(text, yes):
    assert is_key(text) is yes
