from __future__ import annotations

import pytest

from headrace.contracts.documents import model as d
from headrace.contracts.documents.reader import DOCUMENTS, SHAPES, read_documents
from headrace.contracts.documents.tree import DocumentErrors
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.values.durations import MINUTE, SECOND

GPU = 126_000

# The example of the interfaces, every key of it.
EXAMPLE = """
tenants:   [{name: acme, display_name: Acme, shares: [{pool: onprem, reservation: {gpu: 8}, limit: {gpu: 16}}]}]
users:     [{tenant: acme, handle: alice, subject: "oidc|1", email: alice@acme.example}]
groups:    [{tenant: acme, name: ai-dev, members: [alice], service_accounts: [ci]}]
pools:
  - name: onprem
    selector: {site: hq}
    capacity: {gpu: 16, license/abaqus: 4}
    profile_order: [full-8, half]
    backfill_for: 20m
    nomination_timeout: 1m
    allow_overcommit: true
    access: {allow: [acme], deny: [acme/contractors]}
    dedicated_to: {policy: acme/inference}
    dedicated: [{selector: {rack: r7}, to: {tenant: acme}}]
    price: {gpu: 2.50}
  - name: cloud
    selector: {site: cloud}
    price: {gpu: 4.10}
    burst:
      {provider: local, min_nodes: 1, max_nodes: 4, node: {gpus: 8, gpu_model: H100-80GB, cpus: 96, memory: 1TiB}, boot: 3m, idle: 5m,
       spot: true}
profiles:
  - name: half
    request: {gpu: 0.5, cpu: 4, memory: 32GiB}
    replicas: 2
    gpu_models: [A100-80GB, H100-80GB]
    isolation: driver
    pools: [onprem, cloud]
    reclaim_before_spill: false
    policy_order: [ai-dev, acme/research]
  - {name: slice, tenant: acme, mig: 3g.40gb, pools: [onprem]}
policies:
  - tenant: acme
    name: ai-dev
    group: ai-dev
    profiles: [half, {name: slice, borrow: false, submitters: [svc-serving]}]
    beyond_limit: [alice]
    priority: -3
    weight: 2
    reservation: {gpu: 4}
    limit: {gpu: 10}
    per_pool: {onprem: {reservation: {gpu: 4}, limit: {gpu: 8}}}
    preemption:
      on_preempt: suspend
      callback_grace: 90s
      term_grace: 10s
      min_runtime: 5m
      preempt_lower_priority: true
      max_preemptions: 3
      on_node_lost: wait
      suspend_max: 1h
      assume_checkpoint_every: 10m
    max_pending: 100
    fair_among: users
    per_user: {limit: {gpu: 8, job: 20}, max_pending: 9}
    budgets: [{key: gpu, hours: 500, per: week, then: borrow, timezone: Europe/Berlin}]
    windows: [{days: [mon, fri], from: "08:00", to: "20:00", timezone: Europe/Berlin, on_close: preempt}]
"""

DOCUMENTS_OF_EXAMPLE = d.Documents(
    tenants=(
        d.Tenant(
            name="acme",
            display_name="Acme",
            shares=(d.Share(pool="onprem", reservation={"gpu": 8 * GPU}, limit={"gpu": 16 * GPU}),),
        ),
    ),
    users=(d.User(tenant="acme", handle="alice", subject="oidc|1", email="alice@acme.example"),),
    groups=(d.Group(tenant="acme", name="ai-dev", members=("alice",), service_accounts=("ci",)),),
    pools=(
        d.Pool(
            name="onprem",
            selector={"site": "hq"},
            capacity={"gpu": 16 * GPU, "license/abaqus": 4},
            profile_order=("full-8", "half"),
            backfill_for=20 * MINUTE,
            nomination_timeout=MINUTE,
            allow_overcommit=True,
            access=d.Access(allow=("acme",), deny=("acme/contractors",)),
            dedicated_to=d.Owner(policy="acme/inference"),
            dedicated=(d.Dedication(selector={"rack": "r7"}, to=d.Owner(tenant="acme")),),
            price={"gpu": "2.50"},
        ),
        d.Pool(
            name="cloud",
            selector={"site": "cloud"},
            price={"gpu": "4.10"},
            burst=d.Burst(
                provider="local",
                node=d.BurstNode(gpus=8, gpu_model="H100-80GB", cpus=96, memory=1_048_576),
                min_nodes=1,
                max_nodes=4,
                boot=3 * MINUTE,
                idle=5 * MINUTE,
                spot=True,
            ),
        ),
    ),
    profiles=(
        d.Profile(
            name="half",
            request={"gpu": GPU // 2, "cpu": 4_000, "memory": 32_768},
            replicas=2,
            gpu_models=("A100-80GB", "H100-80GB"),
            isolation="driver",
            pools=("onprem", "cloud"),
            reclaim_before_spill=False,
            policy_order=("ai-dev", "acme/research"),
        ),
        d.Profile(name="slice", tenant="acme", mig="3g.40gb", request={}, pools=("onprem",)),
    ),
    policies=(
        d.Policy(
            tenant="acme",
            name="ai-dev",
            group="ai-dev",
            profiles=(d.PolicyProfile(name="half"), d.PolicyProfile(name="slice", borrow=False, submitters=("svc-serving",))),
            beyond_limit=("alice",),
            priority=-3,
            weight=2,
            reservation={"gpu": 4 * GPU},
            limit={"gpu": 10 * GPU},
            per_pool={"onprem": d.Scope(reservation={"gpu": 4 * GPU}, limit={"gpu": 8 * GPU})},
            preemption=d.PreemptionTerms(
                on_preempt="suspend",
                callback_grace=90 * SECOND,
                term_grace=10 * SECOND,
                min_runtime=5 * MINUTE,
                preempt_lower_priority=True,
                max_preemptions=3,
                on_node_lost="wait",
                suspend_max=60 * MINUTE,
                assume_checkpoint_every=10 * MINUTE,
            ),
            max_pending=100,
            fair_among="users",
            per_user=d.PerUser(limit={"gpu": 8 * GPU, "job": 20}, max_pending=9),
            budgets=(d.Budget(key="gpu", hours=500, per="week", then="borrow", timezone="Europe/Berlin"),),
            windows=(d.Window(days=("mon", "fri"), opens=480, closes=1200, timezone="Europe/Berlin", on_close="preempt"),),
        ),
    ),
)


def errors_of(text):
    with pytest.raises(DocumentErrors) as refused:
        read_documents(read_tree(text))
    return str(refused.value).splitlines()


def test_every_key_of_the_example_is_read():
    assert read_documents(read_tree(EXAMPLE)) == DOCUMENTS_OF_EXAMPLE


def test_the_tables_know_every_field_there_is():
    for shape in (DOCUMENTS, *SHAPES.values()):
        assert set(shape.attributes.values()) == set(shape.kind.__struct_fields__) - {"sealed"}  # it is not to be written
    assert tuple(SHAPES) == d.KINDS


def test_a_key_that_names_no_kind_is_unknown():
    assert errors_of("nodes: []\n") == [
        "line 1: nodes: unknown key 'nodes'; the keys here are tenants, users, groups, pools, profiles, policies"
    ]


def test_everything_that_is_wrong_in_a_file_is_told_at_once_in_the_order_of_its_lines():
    assert errors_of("""
policies:
  - name: Research
    profile: [half]
    profiles: [a, a]
    limit: {gpu: 2, gpus: 3}
    reservation: {gpu: 0.3333}
    preemption: {callback_grace: 20m, on_preempt: requue}
    priority: high
    windows: [{days: [mon, fry], from: 25:00, to: "20:00"}]
  - {name: p, profiles: [x], reservation: {memory: 64GB}, limit: {cpu: -1}}
  - {name: p, profiles: [x]}
polices: []
""") == [
        "line 3: policies[0].name: invalid name 'Research': use 1-63 of a-z, 0-9, '-'",
        "line 4: policies[0].profile: unknown key 'profile'; did you mean 'profiles'?",
        "line 5: policies[0].profiles[1]: a occurs twice in this list, first at [0]",
        "line 6: policies[0].limit.gpus: unknown key 'gpus'; did you mean 'gpu'?",
        "line 7: policies[0].reservation.gpu: 0.3333 gpu is not exact; write a fraction of at most three decimals, or 1/n with n up to 10",
        "line 8: policies[0].preemption.callback_grace: 20m is too long; at most 10m is allowed",
        "line 8: policies[0].preemption.on_preempt: 'requue' is not one of requeue, requeue_last, suspend, cancel; did you mean 'requeue'?",
        "line 9: policies[0].priority: invalid number 'high': use a whole number",
        "line 10: policies[0].windows[0].days[1]: 'fry' is not one of mon, tue, wed, thu, fri, sat, sun; did you mean 'fri'?",
        "line 10: policies[0].windows[0].from: invalid time of day '25:00': use 00:00 to 23:59",
        "line 11: policies[1].reservation.memory: memory is counted in powers of 1024; write 64GiB",
        "line 11: policies[1].limit.cpu: invalid amount of cpu '-1': use a number such as 2, 0.5 or 500m",
        "line 12: policies[2]: default/p occurs twice in this list, first at [1]",
        "line 13: polices: unknown key 'polices'; did you mean 'policies'?",
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "policies: [{name: p, profiles: [], reservation: {gpu: 4}, limit: {gpu: 2}}]",
            "policies[0].reservation.gpu: the reservation of 4 is above the limit of 2 (R7)",
        ),
        (
            "policies: [{name: p, profiles: [], per_pool: {a: {reservation: {memory: 2GiB}, limit: {memory: 1GiB}}}}]",
            "policies[0].per_pool.a.reservation.memory: the reservation of 2GiB is above the limit of 1GiB (R7)",
        ),
        (
            "tenants: [{name: t, shares: [{pool: a, reservation: {gpu: 1}, limit: {gpu: 1/2}}]}]",
            "tenants[0].shares[0].reservation.gpu: the reservation of 1 is above the limit of 0.5 (R7)",
        ),
        (
            "tenants: [{name: t, shares: [{pool: a}, {pool: a}]}]",
            "tenants[0].shares[1]: a occurs twice in this list, first at [0]",
        ),
        (
            "profiles: [{name: p, request: {gpu: 1.25}, pools: [a]}]",
            "profiles[0].request.gpu: from one GPU up a request is whole (R3); write 1 or 2",
        ),
        (
            "profiles: [{name: p, request: {gpu: 1}, mig: 3g.40gb, pools: [a]}]",
            "profiles[0].mig: mig takes the place of gpu; leave one of the two out",
        ),
        (
            "profiles: [{name: p, request: {gpu: 1, gpu_memory: 20GiB}, pools: [a]}]",
            "profiles[0].request.gpu: gpu_memory says how much of a GPU it is, in place of gpu; leave one of the two out (R42)",
        ),
        (
            "profiles: [{name: p, request: {gpu_memory: 20GiB}, mig: 3g.40gb, pools: [a]}]",
            "profiles[0].mig: gpu_memory says how much of a GPU it is, in place of mig; leave one of the two out (R42)",
        ),
        (
            "pools: [{name: p, selector: {a: b}, capacity: {gpu_memory: 20GiB}}]",
            "pools[0].capacity.gpu_memory: gpu_memory may stand in a request only; its share of a GPU counts as gpu (R42)",
        ),
        (
            'profiles: [{name: p, request: {"gpu:H100-80GB": 1}, pools: [a]}]',
            (
                "profiles[0].request.gpu:H100-80GB: 'gpu:H100-80GB' may not stand in a request; "
                "ask for gpu, and name the model in gpu_models (R43)"
            ),
        ),
        (
            'policies: [{name: p, profiles: [x], group: g, reservation: {gpu: 1, "gpu:A": 1, "gpu:B": 0.5}}]',
            (
                "policies[0].reservation.gpu:A: of gpu as much has to be reserved as of all models together; "
                "write at least gpu: 1.5 here (R43)"
            ),
        ),
        (
            "profiles: [{name: p, request: {gpu_memory: 20}, pools: [a]}]",
            "profiles[0].request.gpu_memory: memory 20 has no unit; write 20MiB or 20GiB",
        ),
        (
            "profiles: [{name: p, request: {gpu: 0}, pools: [a]}]",
            "profiles[0].request: the request is empty; write what one replica takes, such as {gpu: 1}",
        ),
        (
            "profiles: [{name: p, pools: [a]}]",
            "profiles[0].request: the request is empty; write what one replica takes, such as {gpu: 1}",
        ),
        ("profiles: [{name: p, request: {gpu: 1}, pools: []}]", "profiles[0].pools: write at least 1 here"),
        (
            "profiles: [{name: p, request: {gpu: 1}, pools: [a], replicas: 0}]",
            "profiles[0].replicas: 0 is too small; write 1 to 1000",
        ),
        (
            "pools: [{name: a, selector: {}, dedicated_to: {policy: p, tenant: t}}]",
            "pools[0].dedicated_to: write one of policy and tenant, such as {policy: acme/inference}",
        ),
        (
            "pools: [{name: a, selector: {}, burst: {provider: local, node: {gpus: 8, gpu_model: A}, min_nodes: 2, max_nodes: 1}}]",
            "pools[0].burst.min_nodes: min_nodes 2 is above max_nodes 1",
        ),
        (
            "pools: [{name: a, selector: {}, burst: {provider: loca, node: {gpus: 8, gpu_model: A}}}]",
            "pools[0].burst.provider: 'loca' is not one of none, local, ec2, ssh; did you mean 'local'?",
        ),
        (
            "pools: [{name: a, selector: {}, burst: {provider: local, node: {gpus: 8, gpu_model: A, mig: true}}}]",
            "pools[0].burst.node.mig: A cannot be cut into MIG slices; leave mig out, or name a model such as H100-80GB",
        ),
        (
            "pools: [{name: a, selector: {}, burst: {provider: local, min_life: 2h, max_life: 1h, node: {gpus: 8, gpu_model: A}}}]",
            "pools[0].burst.max_life: max_life 1h is below min_life 2h",
        ),
        (
            "pools: [{name: a, selector: {}, burst: {provider: local, spot: true, offers: [{name: o}], node: {gpus: 8, gpu_model: A}}}]",
            "pools[0].burst.spot: the offers say which of them are spot (market: spot); leave spot out",
        ),
        (
            "pools: [{name: a, selector: {}, burst: {provider: local, cap: 9, offers: [{name: o}], node: {gpus: 8, gpu_model: A}}}]",
            "pools[0].burst.cap: a cap needs the price of every offer; write offers: [{name: NAME, price: 2.50}]",
        ),
        (
            "pools: [{name: a, selector: {}, burst: {provider: ec2, node: {gpus: 8, gpu_model: A}}}]",
            "pools[0].burst.offers: provider ec2 needs types; write offers: [{name: NAME, type: p5.48xlarge, region: eu-central-1}]",
        ),
        (
            "pools: [{name: a, selector: {}, burst: {provider: ec2, image: ami-1, offers: [{name: o}], node: {gpus: 8, gpu_model: A}}}]",
            "pools[0].burst.offers[0].type: provider ec2 needs a type, such as p5.48xlarge, or a template that has one",
        ),
        (
            "pools: [{name: a, selector: {}, burst: {provider: ec2, offers: [{name: o, type: t}], node: {gpus: 8, gpu_model: A}}}]",
            "pools[0].burst.image: provider ec2 needs an image, such as ami-0abc, or a template that has one",
        ),
        (
            "pools: [{name: a, selector: {site: a}, maintenance: [{begins: 2026-01-01T00:00:00Z}]}]",
            "pools[0].maintenance[0]: write begins and ends for one time, or days, from and to for every week",
        ),
        (
            "pools: [{name: a, selector: {site: a}, maintenance: [{begins: 2026-01-01, ends: 2026-01-02, days: [mon]}]}]",
            "pools[0].maintenance[0]: write begins and ends for one time, or days, from and to for every week",
        ),
        (
            "pools: [{name: a, selector: {site: a}, maintenance: [{begins: 2026-01-02T00:00:00Z, ends: 2026-01-01T00:00:00Z}]}]",
            "pools[0].maintenance[0].ends: it ends before it begins; write a time after 2026-01-02T00:00:00.000Z",
        ),
        (
            'pools: [{name: a, selector: {site: a}, maintenance: [{days: [mon], from: "08:00", to: "08:00"}]}]',
            'pools[0].maintenance[0].to: the window has no length; the whole day is from "00:00" to "24:00"',
        ),
        (
            "pools: [{name: a, selector: {}, maintenance: [{days: [mon, tue, wed, thu, fri, sat, sun], from: '00:00', to: '24:00'}]}]",
            "pools[0].maintenance[0].days: the nodes would never take a job; leave a day out, or drain them",
        ),
        (
            'pools: [{name: a, selector: {site: a}, maintenance: [{days: [mon], from: "08:00", to: "09:00", notice: 0s}]}]',
            "pools[0].maintenance[0].notice: write how long before the window jobs have to end in time, such as 12h, or leave it out",
        ),
        (
            "pools: [{name: a, selector: {site: a}, maintenance: [{begins: soon, ends: 2026-01-01T00:00:00Z}]}]",
            "pools[0].maintenance[0].begins: invalid time 'soon': use 2026-11-21T08:00:00Z",
        ),
        (
            'policies: [{name: p, profiles: [], windows: [{days: [mon], from: "08:00", to: "08:00"}]}]',
            'policies[0].windows[0].to: the window never opens; the whole day is from "00:00" to "24:00"',
        ),
        (
            "profiles: [{name: p, request: {gpu: 1}, pools: [a], topology: {require: rack}}]",
            "profiles[0].topology: one replica stands on one node anyway; write replicas: 2 or more, or leave topology out (R40)",
        ),
        (
            "profiles: [{name: p, request: {gpu: 1}, replicas: 2, pools: [a], topology: {}}]",
            "profiles[0].topology: write require, prefer or both, such as {require: example.com/rack}",
        ),
        (
            "profiles: [{name: p, request: {gpu: 1}, replicas: 2, pools: [a], topology: {require: rack, prefer: rack}}]",
            "profiles[0].topology.prefer: rack is required already; prefer a narrower level, or leave prefer out",
        ),
        (
            "profiles: [{name: p, request: {gpu: 1}, pools: [a], network: hosts}]",
            "profiles[0].network: 'hosts' is not one of private, host, none; did you mean 'host'?",
        ),
        (
            "profiles: [{name: p, request: {gpu: 1}, pools: [a], network: {mode: host}}]",
            "profiles[0].network: write one of private, host, none or null, not a mapping",
        ),
        (
            "policies: [{name: p, profiles: [], idle: yield}]",
            "policies[0].idle: nothing says how long a lease has to be idle; write idle_after: 30m beside it, or leave idle out (R39)",
        ),
        (
            "policies: [{name: p, profiles: [], idle_after: 9m}]",
            "policies[0].idle_after: nodes measure over ten minutes; write 10m or more (R39)",
        ),
        (
            "pools: [{name: a, selector: {}, topology: [rack, rack]}]",
            "pools[0].topology[1]: rack occurs twice in this list, first at [0]",
        ),
        (
            "profiles: [{name: p, request: {gpu: 1}, pools: [a], default_time_limit: 2h, max_time_limit: 1h}]",
            "profiles[0].default_time_limit: the default of 2h is above max_time_limit, which is 1h (R33)",
        ),
        (
            "policies: [{name: p, profiles: [], max_time_limit: 0s}]",
            "policies[0].max_time_limit: write how long a job may run, such as 4h; leave it out for no limit",
        ),
        (
            "policies: [{name: p, profiles: [], fair_among: user}]",
            "policies[0].fair_among: 'user' is not one of users; did you mean 'users'?",
        ),
        (
            "policies: [{name: p, profiles: [], per_user: {}}]",
            "policies[0].per_user: write what each user may have, such as {limit: {gpu: 8, job: 20}, max_pending: 100}",
        ),
        ("pools: [{selector: {}}]", "pools[0]: name is missing"),
        ("groups: [{name: g, members: [a, a]}]", "groups[0].members[1]: a occurs twice in this list, first at [0]"),
        ("policies: {name: p}", "policies: write a list such as [a, b], not a mapping"),
    ],
)
def test_what_no_single_field_shows_is_refused_too(text, complaint):
    assert errors_of(text) == [f"line 1: {complaint}"]


def test_a_window_may_span_midnight():
    text = 'policies: [{name: p, profiles: [], windows: [{days: [sat], from: "22:00", to: "06:00"}]}]'
    assert read_documents(read_tree(text)).policies[0].windows == (d.Window(days=("sat",), opens=1320, closes=360),)


def test_a_reservation_that_is_written_empty_is_a_block_and_one_left_out_is_not_a_block():
    text = "policies: [{name: a, profiles: [], reservation: {}}, {name: b, profiles: []}]"
    assert [policy.reservation for policy in read_documents(read_tree(text)).policies] == [{}, None]


def test_the_same_name_may_stand_in_two_tenants():
    text = "policies: [{name: p, profiles: []}, {tenant: acme, name: p, profiles: []}]"
    assert [policy.tenant for policy in read_documents(read_tree(text)).policies] == ["default", "acme"]
