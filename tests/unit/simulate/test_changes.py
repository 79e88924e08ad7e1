"""A file of changes: documents as `apply` takes them, nodes and jobs as scenarios have them, and what is to be gone."""

from __future__ import annotations

import pytest

from headrace.contracts.documents.tree import DocumentErrors
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.values.durations import HOUR
from headrace.simulate.changes import read_changes
from headrace.simulate.scenario import Delete, Nodes, Submit


def test_everything_that_may_be_otherwise_is_read():
    found = read_changes(
        read_tree("""
policies: [{name: q, profiles: [one], limit: {gpu: 4}}]
nodes: [{name: new, count: 2, labels: {site: a}, gpus: 8}]
submit: [{name: big, queue: q/one, duration: 1h}]
delete: [{kind: policy, name: old}]
""")
    )
    assert [policy.name for policy in found.documents.policies] == ["q"]
    assert found.nodes == (Nodes(name="new", count=2, labels={"site": "a"}, gpus=8),)
    assert found.submit == (Submit(name="big", queue="q/one", duration=HOUR),)
    assert found.delete == (Delete(kind="policy", name="old"),)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(
            "timeline: []\npolicies: [{name: q, profiles: [one]}]",
            "line 1: timeline: unknown key",
            id="a timeline has no place here",
        ),
        pytest.param("nodes: []", "line 1: nothing is changed; write one of tenants", id="nothing"),
        pytest.param(
            "submit:\n  - {name: a, queue: q/one}\n  - {name: a, queue: q/two}",
            "line 3: submit[1].name: there is a job a already",
            id="a job twice",
        ),
        pytest.param(
            "nodes:\n  - {name: a-1}\n  - {name: a, count: 2}",
            "line 3: nodes[1].name: there is a node a-1 already",
            id="a node twice",
        ),
        pytest.param("submit: [{name: a, queue: q}]", "line 1: submit[0].queue: invalid queue 'q'", id="no queue"),
        pytest.param(
            "policies: [{name: q, profiles: [one], limit: {gpu: 0.3333}}]", "line 1: policies[0].limit.gpu", id="inexact"
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(text, complaint):
    with pytest.raises(DocumentErrors) as wrong:
        read_changes(read_tree(text))
    assert [str(error)[: len(complaint)] for error in wrong.value.errors] == [complaint]
