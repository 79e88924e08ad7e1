from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.values.ids import (
    IdError,
    is_job_id,
    is_token,
    job_id_time,
    job_key,
    lease_id,
    make_job_id,
    split_job_key,
    split_lease_id,
    written,
)

JOB = "01kgz5v0q8x4m2c7b9n3d6f1ha"


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ("a", True),
        ("gpu01-hq", True),
        ("a" * 63, True),
        ("a" * 64, False),
        ("", False),
        ("A", False),
        ("a.b", False),
        ("a\n", False),
    ],
)
def test_a_token_is_one_part_of_a_subject(text, yes):
    assert is_token(text) is yes


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        (JOB, True),
        (JOB.upper(), False),
        (JOB[:-1], False),
        ("8" + JOB[1:], False),
        (JOB[:-1] + "i", False),
        (JOB + "\n", False),
    ],
)
def test_a_job_id_is_a_lower_case_ulid(text, yes):
    assert is_job_id(text) is yes


@given(st.integers(0, 2**48 - 1), st.binary(min_size=10, max_size=10))
def test_a_job_id_keeps_its_time_and_sorts_by_it(milliseconds, entropy):
    job_id = make_job_id(milliseconds, entropy)
    assert is_job_id(job_id)
    assert job_id_time(job_id) == milliseconds * 1_000
    assert job_id >= make_job_id(milliseconds, bytes(10))


@pytest.mark.parametrize(("milliseconds", "entropy"), [(2**48, bytes(10)), (-1, bytes(10)), (0, bytes(9))])
def test_what_does_not_fit_into_a_ulid_is_refused(milliseconds, entropy):
    with pytest.raises(IdError):
        make_job_id(milliseconds, entropy)


def test_the_time_of_something_that_is_not_a_job_id_is_an_error():
    with pytest.raises(IdError, match="invalid job id"):
        job_id_time("tomorrow")


def test_a_job_key_holds_tenant_user_and_id():
    key = job_key("acme", "alice", JOB)
    assert key == f"acme.alice.{JOB}"
    assert split_job_key(key) == ("acme", "alice", JOB)


@pytest.mark.parametrize("key", ["", "acme.alice", f"acme.alice.{JOB}.x", f"Acme.alice.{JOB}", "acme.alice.job-1"])
def test_what_is_not_a_job_key_is_refused(key):
    with pytest.raises(IdError, match=r"use <tenant>\.<user>\.<ulid>"):
        split_job_key(key)


def test_a_lease_id_holds_job_attempt_and_rank():
    lease = lease_id(f"acme.alice.{JOB}", 2, 0)
    assert lease == f"acme.alice.{JOB}/2/0"
    assert split_lease_id(lease) == (f"acme.alice.{JOB}", 2, 0)


@pytest.mark.parametrize("tail", ["", "/1", "/0/0", "/01/0", "/1/00", "/1/-1", "/1/0/0", "/1/٠", "/1/0\n"])
def test_a_lease_has_one_name_only(tail):
    with pytest.raises(IdError, match="invalid lease id"):
        split_lease_id(f"acme.alice.{JOB}{tail}")


def test_the_lease_of_something_that_is_not_a_job_is_refused():
    with pytest.raises(IdError, match="invalid job key"):
        split_lease_id("job/1/0")


def test_an_element_is_written_with_its_array_and_index():
    assert [written(name) for name in (JOB, f"a.b.{JOB}-000017", f"{JOB}-000000")] == [JOB, f"a.b.{JOB}:17", f"{JOB}:0"]
