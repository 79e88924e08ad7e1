"""What the state is made of: everything that may stand in it is declared, down to the last annotation."""

from __future__ import annotations

import ast
from dataclasses import dataclass, fields

import pytest

from headrace.domain.indexes.node_index import NodeIndex
from headrace.domain.model.jobs import JobRecord, PolicyState
from headrace.domain.model.requests import Request
from headrace.domain.snapshots import state_schema
from headrace.domain.state.pools import PoolState
from headrace.domain.state.state import State
from tests.unit.domain.site import Site, policy

BUILT_IN = {
    "None",
    "bool",
    "bytes",
    "deque",
    "dict",
    "frozenset",
    "int",
    "list",
    "object",
    "set",
    "str",
    "tuple",
    "Mapping",
    "Amounts",
}


IN_SNAPSHOTS = {
    "admission": (
        "AccountNumberedV1 Dependency JobAdmittedV1 JobCancelRequestedV1 JobRejectedV1 JobRequeueRequestedV1 "
        "RefusalsCountedV1 WishRefusedV1 WishesJudgedV1"
    ),
    "attempts": "Answered Attempt Ending",
    "claims": "Approval Claims",
    "devices": "CutDevices DeviceState",
    "documents": (
        "Access Budget Burst BurstNode Dedication Document Documents Group Mount Owner Policy PolicyProfile Pool "
        "PreemptionTerms Profile RuntimeRules Scope Share SubmitRate Tenant User Window"
    ),
    "fact": "DeviceShare Fact Ladder Place Value",
    "isolation": "Ranks",
    "job_states": "JobState",
    "jobs": "JobRecord LeaseState",
    "mix": "Mix",
    "nodes": (
        "CheckpointRegisteredV1 Device DeviceDrainedV1 DeviceReturnedV1 LeaseEndedV1 LeaseOverranV1 LeaseResumedV1 "
        "LeaseRungV1 LeaseStartedV1 LeaseSuspendedV1 NodeCheckedV1 NodeRegisteredV1 NodeStoppedV1"
    ),
    "preemption": (
        "LeaseOverdueV1 NodeLostV1 NominationEndedV1 PreemptionDismissedV1 PreemptionNoneV1 PreemptionOrderedV1 "
        "PreemptionProposedV1 PreemptionSettledV1 ReclaimOpenedV1 Victim"
    ),
    "requests": "Request Shape",
    "searches": "Fruitless",
    "state": "NodeState PolicyState PoolState Probation Scope State Written",
    "takings": "Hold Preemption Proposal Search",
    "terms": "Allowance Calendar Closing Gate Growth Meter Terms",
    "tokens": "Claims Token Tokens",
}
"""Names that snapshots of earlier releases have for classes. Names are added, never changed."""


def words(annotation: str) -> set[str]:
    """Every name in an annotation: `dict`, `str` and `JobRecord` of `dict[str, JobRecord]`."""
    return {node.id for node in ast.walk(ast.parse(annotation)) if isinstance(node, ast.Name)}


def objects() -> list[type]:
    return [kind for kind in state_schema.CLASSES.values() if state_schema.is_object(kind)]


def test_every_class_that_a_field_of_the_state_names_is_declared():
    known = BUILT_IN | {kind.__name__ for kind in state_schema.CLASSES.values()}
    strangers = {
        f"{kind.__name__}.{field.name}: {word}"
        for kind in objects()
        for field in fields(kind)
        if not field.metadata.get("aid")
        for word in words(str(field.type)) - known
    }
    assert strangers == set(), "name its module in graph.MODULES, or mark the field with metadata=AID"


def test_every_aid_has_a_default_to_begin_with():
    aids = [(kind, field.name) for kind in objects() for field in fields(kind) if field.metadata.get("aid")]
    assert (PoolState, "index") in aids
    assert [(kind, name) for kind, name in aids if dict(state_schema.defaults(kind))[name] is None] == []


def test_every_object_has_slots_so_that_nothing_can_stand_in_it_unseen():
    assert [kind for kind in objects() if "__slots__" not in vars(kind) or "__dict__" in vars(kind)] == []


def test_classes_keep_the_names_that_they_have_in_snapshots_of_earlier_releases():
    names = {f"{module}.{name}" for module, listed in IN_SNAPSHOTS.items() for name in listed.split()}
    assert names - set(state_schema.CLASSES) == set(), "a renamed class keeps its name in snapshots: state_schema.name_of"


def test_no_two_classes_have_the_same_name_in_a_snapshot():
    assert len({state_schema.name_of(kind) for kind in state_schema.CLASSES.values()}) == len(
        set(state_schema.CLASSES.values())
    )


def test_aids_are_not_truth():
    assert {"pending", "stale"}.isdisjoint(state_schema.field_names(State))
    assert "index" not in state_schema.field_names(PoolState)
    assert state_schema.field_names(Request) == ("amounts", "replicas", "shape", "total", "order", "topology", "choices")


def test_a_stranger_is_refused_by_name_with_the_way_out():
    @dataclass(slots=True)
    class Stranger:
        number: int

    with pytest.raises(state_schema.UnknownSort, match=r"Stranger stands in the state.*state_schema\.MODULES.*metadata=AID"):
        state_schema.known(Stranger)


def test_an_account_that_says_nothing_is_not_told_from_one_that_is_not_there():
    site = Site(policy())
    dev = site.state.policies["default", "dev"]
    state_schema.values_of([dev], PolicyState, "scopes")
    site.state.policies["default", "dev"].scopes["hall"] = type(dev.wide)("policy", "looked at")
    assert state_schema.values_of([dev], PolicyState, "scopes") == [{}]


def test_the_line_and_the_index_of_nodes_are_made_again():
    site = Site(policy())
    site.node()
    job = site.admit("a", "dev/one")
    hall = site.state.pools["hall"]
    hall.index = NodeIndex()
    state_schema.rebuild(site.state)
    assert site.state.pending.group_of(job) is not None
    assert hall.index.find(job.request.shape) == next(iter(hall.nodes))


def test_a_field_is_filled_for_many_objects_at_once():
    site = Site(policy())
    jobs = [site.admit(name, "dev/one") for name in ("a", "b")]
    state_schema.fill(jobs, JobRecord, {"name": ["first", "second"]})
    assert [job.name for job in jobs] == ["first", "second"]
