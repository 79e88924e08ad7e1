from __future__ import annotations

from textwrap import dedent

import pytest

from headrace.contracts.documents.model import Documents, Pool, Profile
from headrace.contracts.documents.tree import DocumentErrors
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.simulate.scenario import Delete, Expect, Moment, Nodes, Scenario, Submit, read_scenario


def read(text):
    return read_scenario(read_tree(dedent(text)))


def errors_of(text):
    with pytest.raises(DocumentErrors) as refused:
        read(text)
    return list(map(str, refused.value.errors))


def test_a_scenario_with_everything_in_it_is_read_whole():
    scenario = read("""
        pools: [{name: a, selector: {site: a}}]
        nodes:
          - {name: hq, count: 2, labels: {site: a}, gpus: 8, gpu_model: H100-80GB, cpus: 96, memory: 1GiB, mig: true}
        timeline:
          - at: 0s
            submit:
              {name: r, queue: dev/half, count: 5, tenant: acme, user: ann, duration: 1h, preemptible: false, priority: -3,
               time_limit: 2h, max_retries: 2, abort_takes: 5s, checkpoint_every: 10m, request: {gpu: 0.5}}
          - {at: 1s, node_lost: hq-1}
          - {at: 2s, node_back: hq-1}
          - {at: 3s, cancel: r-1}
          - {at: 3s, finish: r-2}
          - {at: 3s, fail: r-3}
          - {at: 4s, apply: {profiles: [{name: one, request: {gpu: 1}, pools: [a]}]}}
          - {at: 5s, delete: {kind: policy, name: q, tenant: acme}}
          - at: 1m
            expect:
              jobs: {r-1: cancelled}
              reasons: {r-4: AT_POLICY_LIMIT}
              job_pools: {r-4: a}
              pools: {a: {gpu: {used: 9/14}}}
              policies: {dev: {gpu: {borrowed: 1}}}
              preemptions: 1
        """)
    assert scenario == Scenario(
        documents=Documents(pools=(Pool(name="a", selector={"site": "a"}),)),
        nodes=(
            Nodes(name="hq", count=2, labels={"site": "a"}, gpus=8, gpu_model="H100-80GB", cpus=96, memory=1_024, mig=True),
        ),
        timeline=(
            Moment(
                at=0,
                submit=Submit(
                    name="r",
                    queue="dev/half",
                    count=5,
                    tenant="acme",
                    user="ann",
                    duration=HOUR,
                    preemptible=False,
                    priority=-3,
                    time_limit=2 * HOUR,
                    max_retries=2,
                    abort_takes=5 * SECOND,
                    checkpoint_every=10 * MINUTE,
                    request={"gpu": "0.5"},
                ),
            ),
            Moment(at=1 * SECOND, node_lost="hq-1"),
            Moment(at=2 * SECOND, node_back="hq-1"),
            Moment(at=3 * SECOND, cancel="r-1"),
            Moment(at=3 * SECOND, finish="r-2"),
            Moment(at=3 * SECOND, fail="r-3"),
            Moment(at=4 * SECOND, apply=Documents(profiles=(Profile(name="one", request={GPU: GPU_UNITS}, pools=("a",)),))),
            Moment(at=5 * SECOND, delete=Delete(kind="policy", name="q", tenant="acme")),
            Moment(
                at=1 * MINUTE,
                expect=Expect(
                    jobs={"r-1": "cancelled"},
                    reasons={"r-4": "AT_POLICY_LIMIT"},
                    job_pools={"r-4": "a"},
                    pools={"a": {"gpu": {"used": "9/14"}}},
                    policies={"dev": {"gpu": {"borrowed": "1"}}},
                    preemptions=1,
                ),
            ),
        ),
    )


def test_everything_that_is_wrong_is_told_once_with_its_line_in_the_order_of_the_lines():
    assert errors_of("""\
        nodes: [{name: n, gpuz: 2}]
        timeline:
          - {at: 5 minutes, submit: {name: j, queue: q}}
          - {at: 1s, submit: {name: j, queue: q/one, count: 0}}
          - {at: 1s, submit: {queue: q/one, duration: 1.5h}}
          - {at: 2s, expect: {preemptions: one}}
          - {at: 2s, expect: {jobs: [j]}}
          - {expect: {preemptions: -1}}
          - {at: 2s, delete: {kind: node, name: n}}
        policies: [{name: q, profiles: [one], limit: {gpu: -1}}]
        nods: []
        """) == [
        "line 1: nodes[0].gpuz: unknown key 'gpuz'; did you mean 'gpus'?",
        "line 3: timeline[0].at: invalid duration '5 minutes': use 90s, 10m, 1h30m or 2d",
        "line 3: timeline[0].submit.queue: invalid queue 'q'; write <policy>/<profile>",
        "line 4: timeline[1].submit.count: 0 is too small; write 1 to 1000000",
        "line 5: timeline[2].submit.duration: invalid duration '1.5h': use 90s, 10m, 1h30m or 2d",
        "line 5: timeline[2].submit: name is missing",
        "line 6: timeline[3].expect.preemptions: invalid number 'one': use a whole number",
        "line 7: timeline[4].expect.jobs: write a mapping such as {job-1: running}, not a list",
        "line 8: timeline[5].expect.preemptions: -1 is too small; write 0 to 9007199254740991",
        "line 8: timeline[5]: at is missing",
        "line 9: timeline[6].delete.kind: 'node' is not one of policy, profile, pool, group, tenant",
        "line 10: policies[0].limit.gpu: invalid amount of gpu '-1': use a number such as 2, 0.5 or 1/7",
        "line 11: nods: unknown key 'nods'; did you mean 'nodes'?",
    ]


@pytest.mark.parametrize(
    ("moment", "complaint"),
    [
        (
            "{at: 0s, refused: no}",
            (
                "nothing happens here; write one of submit, node_lost, node_back, cordon, uncordon, drain, confirm_empty, refuse_starts, "
                "stall_starts, allow_starts, cancel, cancel_many, requeue, finish, fail, idle, busy, force, node_joins, "
                "apply, delete, expect"
            ),
        ),
        (
            "{at: 0s, finish: a, node_lost: n}",
            "one thing happens in each entry, here are 2; write more entries with the same 'at'",
        ),
        (
            "{at: 0s, apply: {}, expect: {}}",
            "one thing happens in each entry, here are 2; write more entries with the same 'at'",
        ),
    ],
)
def test_one_thing_happens_in_each_entry_of_the_timeline(moment, complaint):
    assert errors_of(f"timeline: [{moment}]") == [f"line 1: timeline[0]: {complaint}"]


def test_only_what_governance_decides_can_be_expected_to_be_refused():
    message = "expect cannot be refused by governance; write it beside one of apply, delete, force, cordon, uncordon, drain, confirm_empty"
    assert errors_of("timeline: [{at: 0s, expect: {}, refused: no}]") == [f"line 1: timeline[0].refused: {message}"]


@pytest.mark.parametrize("queue", ["q", "q/one/two"])
def test_a_queue_is_a_policy_and_a_profile(queue):
    assert errors_of(f"timeline: [{{at: 0s, submit: {{name: j, queue: {queue}}}}}]") == [
        f"line 1: timeline[0].submit.queue: invalid queue '{queue}'; write <policy>/<profile>"
    ]


def test_a_way_of_deleting_that_there_is_not_is_refused_and_not_ignored():
    assert errors_of("timeline: [{at: 0s, delete: {kind: policy, name: q, mode: dry}}]") == [
        "line 1: timeline[0].delete.mode: 'dry' is not one of freeze, drain, cancel"
    ]


def test_a_state_that_no_job_can_be_in_is_refused():
    (complaint,) = errors_of("timeline: [{at: 2s, expect: {jobs: {j: runing}}}]")
    assert complaint == (
        "line 1: timeline[0].expect.jobs.j: 'runing' is not one of pending, running, preempting, stopping, suspended, succeeded,"
        " failed, cancelled, rejected; did you mean 'running'?"
    )


class TestNames:
    def test_what_is_named_has_to_be_there(self):
        assert errors_of("""\
            nodes: [{name: n, count: 2}]
            timeline:
              - {at: 0s, submit: {name: j, queue: q/one, count: 2}}
              - {at: 1s, cancel: j}
              - {at: 1s, finish: j-3}
              - {at: 1s, fail: k}
              - {at: 1s, node_lost: n}
              - {at: 1s, node_back: n-3}
              - {at: 1s, requeue: l}
              - {at: 1s, fail: j-2}
              - {at: 1s, node_lost: n-2}
            """) == [
            "line 4: timeline[1].cancel: no job j has been submitted by then; with a count they are NAME-1 ...",
            "line 5: timeline[2].finish: no job j-3 has been submitted by then; with a count they are NAME-1 ...",
            "line 6: timeline[3].fail: no job k has been submitted by then; with a count they are NAME-1 ...",
            "line 7: timeline[4].node_lost: node n does not exist; with a count they are NAME-1 ...",
            "line 8: timeline[5].node_back: node n-3 does not exist; with a count they are NAME-1 ...",
            "line 9: timeline[6].requeue: no job l has been submitted by then; with a count they are NAME-1 ...",
        ]

    def test_a_job_is_there_from_its_moment_on_wherever_it_stands_in_the_file(self):
        assert errors_of("""\
            timeline:
              - {at: 1s, cancel: late}
              - {at: 3s, cancel: early}
              - {at: 2s, submit: {name: late, queue: q/one}}
              - {at: 2s, submit: {name: early, queue: q/one}}
            """) == ["line 2: timeline[0].cancel: no job late has been submitted by then; with a count they are NAME-1 ..."]

    def test_what_a_job_waits_for_is_there_before_it(self):
        assert errors_of("""\
            timeline: [{at: 1s, submit: {name: j, queue: q/one, after: [k]}}]
            """) == ["line 1: timeline[0].submit.after: no job k has been submitted by then; with a count they are NAME-1 ..."]

    def test_a_name_is_given_once(self):
        assert errors_of("""\
            nodes:
              - {name: n, count: 2}
              - {name: n-2}
            timeline:
              - {at: 0s, submit: {name: j, queue: q/one}}
              - {at: 1s, submit: {name: j, queue: q/one}}
            """) == [
            "line 3: nodes[1].name: there is a node n-2 already; names are given once",
            "line 6: timeline[1].submit.name: there is a job j already; names are given once",
        ]
