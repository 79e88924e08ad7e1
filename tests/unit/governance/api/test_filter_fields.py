from __future__ import annotations

import pytest

from headrace.contracts.api.jobs_pb2 import Job
from headrace.governance.api.filter_fields import field_lookup
from headrace.governance.api.messages import moment

JOB = Job(
    state="running",
    priority=3,
    preemptible=True,
    labels={"team": "vision"},
    admit_time=moment(1_000_000),
    attempts=[{"pool": "a", "nodes": ["n1", "n2"]}, {"pool": "b"}],
)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("state", ("running",)),
        ("priority", ("3",)),
        ("preemptible", ("true",)),
        ("labels", ("team",)),
        ("labels.team", ("vision",)),
        ("labels.owner", ()),
        ("admit_time", ("1970-01-01T00:00:01Z",)),
        ("end_time", ()),
        ("attempts.pool", ("a", "b")),
        ("attempts.nodes", ("n1", "n2")),
        ("checkpoint", ()),
        ("state.deeper", ()),
        ("nothing", ()),
    ],
)
def test_a_filter_sees_the_values_of_a_field(path, expected):
    assert field_lookup(JOB)(path) == expected
