from __future__ import annotations

import msgspec
import pytest

from headrace.admission.judge import Asker, acting, judge
from headrace.admission.review import Review
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.admission import Dependency
from headrace.contracts.facts.records import Record
from headrace.contracts.messages.submissions import After, JobSubmission, JobText
from headrace.contracts.transport.digests import submission_digest
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS
from headrace.contracts.values.durations import DAY, HOUR, MINUTE
from headrace.contracts.values.ids import make_job_id
from tests.unit.allocator.history import START, History, gpus, policy, profile
from tests.unit.domain.snapshot import differences, snapshot

ID = make_job_id(START // 1_000, bytes(10))
ANN = Asker("default", "ann", "ml", "two")
SUBMISSION = JobSubmission(id=ID, command=("train.py", "--fast"))

POOLS = (
    d.Pool(name="hall", selector={"site": "hall"}),
    d.Pool(name="shut", selector={"site": "shut"}, access=d.Access(allow=("default/lab", "other"))),
    d.Pool(name="barred", selector={"site": "barred"}, access=d.Access(deny=("default/all",))),
)
PROFILES = (
    profile("two", 2, request={GPU: 2 * GPU_UNITS, CPU: 4 * CPU_UNITS}),
    profile("one"),
    profile("half", request={GPU: GPU_UNITS // 2}),
    profile("gang", 3, replicas=2),
    profile("x-host", 3, replicas=2, network="host"),
    profile("x-private", 3, replicas=2, network="private"),
    profile("huge", 99),
    profile("wide", 6),
    profile("elsewhere", pools=("hall", "nowhere")),
    profile("shut", pools=("shut", "barred")),
    profile("nowhere", pools=("nowhere",)),
    profile("unlinked"),
)


def linked(name: str, **more: object) -> d.Policy:
    links = tuple(
        d.PolicyProfile(name=known.name, submitters=("carl",) if known.name == "half" else ())
        for known in PROFILES
        if known.name != "unlinked"
    )
    return policy(name, profiles=links, **more)


@pytest.fixture
def history() -> History:
    """Two nodes of four GPUs; `ml` for the group `all` reserves one GPU, may use six, and may have two pending."""
    groups = (d.Group(name="all", members=("ann", "carl"), service_accounts=("bot",)), d.Group(name="lab", members=("bob",)))
    acme = d.Tenant(name="acme", shares=(d.Share(pool="hall", limit=gpus(1)),))
    history = History(
        linked("ml", group="all", reservation=gpus(1), limit=gpus(5), max_pending=2, beyond_limit=("carl",)),
        linked("open", tenant="acme"),
        pools=POOLS,
        profiles=PROFILES,
        groups=groups,
        tenants=(acme,),
    )
    history.node("n1")
    history.node("n2")
    return history


def seal(tenant: str, job: str, text: JobText) -> str:
    return f"{tenant}|{job}|{' '.join(text.command)}"


def judged(history: History, asker: Asker = ANN, *, pending: int = 0, batch: tuple[str, ...] = (), **changed: object):
    """The fact about a submission, which leaves the state alone; who judges it again by the fact alone has no objection."""
    before = snapshot(history.state)
    fact = judge(
        history.state,
        asker,
        msgspec.structs.replace(SUBMISSION, **changed),
        history.now,
        pending=pending,
        batch=batch,
        seal=seal,
    )
    if not (pending or batch):
        assert (
            Review(history.state, Record(by="admission", now=history.now, engine="", as_of=0, facts=(fact,))).objections == []
        )
    assert differences(snapshot(history.state), before) == []
    return fact


def rejection_of(fact: f.JobAdmittedV1 | f.JobRejectedV1) -> tuple[str, str] | None:
    return (fact.reason, fact.message) if isinstance(fact, f.JobRejectedV1) else None


def test_what_is_admitted_says_all_that_the_allocator_has_to_know(history):
    other = history.admit("ml/one")
    changed = {
        "name": "night",
        "labels": {"paper": "7"},
        "preemptible": True,
        "priority": 3,
        "retries": 2,
        "time_limit": "1h30m",
        "request": {"gpu": 1, "cpu": "500m"},
        "after": (After(job=other.key, when="any"), After(job=other.key.split(".")[2])),
        "trace": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }

    assert judged(history, **changed) == f.JobAdmittedV1(
        job=f"default.ann.{ID}",
        policy="ml",
        profile="two",
        request={GPU: GPU_UNITS, CPU: 500},
        replicas=1,
        preemptible=True,
        priority=3,
        max_retries=2,
        time_limit=HOUR + 30 * MINUTE,
        after=(Dependency(job=other.key, when="any"), Dependency(job=other.key, when="ok")),
        name="night",
        labels={"paper": "7"},
        digest=submission_digest(ANN.policy, ANN.profile, msgspec.structs.replace(SUBMISSION, **changed)),
        text=f"default|default.ann.{ID}|train.py --fast",
        trace="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    )


def test_a_rejection_says_which_job_and_queue_it_was_and_what_to_do(history):
    assert judged(history, name="x" * 300) == f.JobRejectedV1(
        job=f"default.ann.{ID}",
        policy="ml",
        profile="two",
        reason="MALFORMED",
        message="name: at most 256 characters",
        name="x" * 256,
        digest=submission_digest(ANN.policy, ANN.profile, msgspec.structs.replace(SUBMISSION, name="x" * 300)),
    )


def test_each_test_is_made_only_when_those_before_it_have_passed(history):
    """One submission with everything wrong; what is wrong first is put right, again and again (R13)."""
    asker = Asker("nobody", "zoe", "none", "none")
    changed = {"command": (), "preemptible": False, "request": {"gpu": 200}, "id": make_job_id(0, bytes(10))}
    pending, reasons = 2, []

    def judge_again() -> None:
        fact = judged(history, asker, pending=pending, **changed)
        reasons.append(fact.reason if isinstance(fact, f.JobRejectedV1) else "")

    judge_again()
    changed["command"] = ("train.py",)
    judge_again()
    changed["id"] = ID
    judge_again()
    asker = asker._replace(tenant="default")
    judge_again()
    asker = asker._replace(policy="ml", profile="huge")
    judge_again()
    asker = asker._replace(user="ann")
    judge_again()
    changed["request"] = {}
    judge_again()
    asker = asker._replace(profile="gang")
    judge_again()
    changed["request"] = {"gpu": 2}
    judge_again()
    changed["preemptible"] = True
    judge_again()
    pending = 1
    judge_again()

    assert reasons == [
        "MALFORMED",
        "ID_TOO_OLD",
        "UNKNOWN_TENANT",
        "UNKNOWN_QUEUE",
        "NOT_ALLOWED",
        "BEYOND_PROFILE",
        "EXCEEDS_POOL_CAPACITY",
        "EXCEEDS_POLICY_LIMIT",
        "EXCEEDS_RESERVATION",
        "TOO_MANY_PENDING",
        "",
    ]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"command": ()}, "command: it is empty; give the program and its arguments as a list of strings"),
        ({"command": ("",)}, "command: it is empty; give the program and its arguments as a list of strings"),
        ({"command": ("x",) * 257}, "command: at most 256 words and 65536 characters; put more into a script"),
        ({"command": ("x" * 65_537,)}, "command: at most 256 words and 65536 characters; put more into a script"),
        *(
            (fields, f"{field}: a NUL character cannot stand here; leave it out")
            for field, fields in (
                ("name", {"name": "sweep\0"}),
                ("labels", {"labels": {"a\0": "b"}}),
                ("labels", {"labels": {"a": "\0"}}),
                ("command", {"command": ("a\0b",)}),
                ("on_abort", {"on_abort": ("a", "\0")}),
                ("env", {"env": {"A": "\0"}}),
                ("env", {"env": {"\0": "a"}}),
                ("secret_env", {"secret_env": ("\0",)}),
                ("image", {"image": "\0"}),
                ("workdir", {"workdir": "\0"}),
                ("trace", {"trace": "\0"}),
                ("on_behalf_of", {"on_behalf_of": "eve\0"}),
            )
        ),
        ({"env": {"": "x"}}, "env: a variable's name is not empty and has no '='"),
        ({"secret_env": ("A=B",)}, "env: a variable's name is not empty and has no '='"),
        ({"env": {"A": "x" * 65_536}}, "env: at most 65536 characters in all"),
        ({"image": "x" * 200_000}, "command, env, secret_env, image, workdir, on_abort: at most 196608 bytes in all"),
        ({"on_abort": ("x",) * 65_537}, "command, env, secret_env, image, workdir, on_abort: at most 196608 bytes in all"),
        ({"labels": {str(n): "x" for n in range(65)}}, "labels: at most 64, names of 63 and values of 256 characters"),
        ({"labels": {"x" * 64: ""}}, "labels: at most 64, names of 63 and values of 256 characters"),
        ({"labels": {"x": "x" * 257}}, "labels: at most 64, names of 63 and values of 256 characters"),
        ({"name": "x" * 257}, "name: at most 256 characters"),
        ({"priority": 1_000_001}, "priority: between -1000000 and 1000000"),
        ({"retries": -1}, "retries: between 0 and 1000"),
        ({"request": {"G P U": 1}}, "request: 'G P U' is not a resource; write gpu, cpu, memory or a key of the pool"),
        (
            {"request": {"gpu": "0.3333"}},
            "request.gpu: 0.3333 gpu is not exact; write a fraction of at most three decimals, or 1/n with n up to 10",
        ),
        ({"request": {"gpu": -1}}, "request.gpu: invalid amount of gpu '-1': use a number such as 2, 0.5 or 1/7"),
        ({"time_limit": "soon"}, "time_limit: invalid duration 'soon': use 90s, 10m, 1h30m or 2d"),
        ({"after": (After(job="nobody"),)}, "after: no job nobody is known; submit it first, with its id in full"),
        ({"after": (After(job="nobody"),) * 101}, "after: at most 100 jobs"),
        ({"request": {"gpu": "1.25"}}, "request.gpu: 1.25 is no whole number of GPUs; from one up it has to be (R3)"),
    ],
)
def test_a_submission_that_cannot_be_understood_is_malformed_and_the_message_says_where(history, changed, message):
    assert rejection_of(judged(history, **changed)) == ("MALFORMED", message)


def test_a_dependency_has_to_be_known_of_the_same_tenant_and_with_a_condition_that_is_one(history):
    stranger = history.admit("open/one", tenant="acme")
    mine = history.admit("ml/one")

    foreign = f"after: no job {stranger.key} is known; submit it first, with its id in full"
    assert rejection_of(judged(history, after=(After(job=stranger.key),))) == ("MALFORMED", foreign)
    assert rejection_of(judged(history, after=(After(job=mine.key, when="never"),))) == (
        "MALFORMED",
        "after: 'never' is not a condition; write ok or any",
    )


def test_a_dependency_may_stand_in_the_same_batch_or_have_been_answered_long_ago(history):
    before = make_job_id(START // 1_000 - 1, bytes(10))
    key = f"default.ann.{before}"

    assert isinstance(judged(history, batch=(key,), after=(After(job=before),)), f.JobAdmittedV1)
    rejected = f.JobRejectedV1(job=key, policy="ml", profile="two", reason="NOT_ALLOWED", message="")
    history.append_facts(rejected, by="admission")
    assert isinstance(judged(history, after=(After(job=before),)), f.JobAdmittedV1)


def test_hostile_words_are_cut_before_they_go_into_a_fact(history):
    for changed in ({"after": (After(job="x" * 100_000),)}, {"time_limit": "x" * 100_000}, {"request": {"x" * 100_000: 1}}):
        fact = judged(history, **changed)
        assert (fact.reason, len(fact.message) <= 512) == ("MALFORMED", True)


def test_a_trace_that_is_invalid_is_not_carried_on(history):
    assert judged(history, trace="x" * 129).trace == ""


@pytest.mark.parametrize(
    ("before", "usable"), [(DAY, True), (DAY + 1_000, False), (-5 * MINUTE, True), (-5 * MINUTE - 1_000, False)]
)
def test_an_id_is_usable_from_a_day_ago_to_five_minutes_ahead(history, before, usable):
    fact = judged(history, id=make_job_id((START - before) // 1_000, bytes(10)))

    too_old = ("ID_TOO_OLD", "id: the time inside the id is more than 24 h ago or 5 min ahead; make a new ULID")
    assert rejection_of(fact) == (None if usable else too_old)


@pytest.mark.parametrize(
    ("asker", "reason", "message"),
    [
        (ANN._replace(tenant="none"), "UNKNOWN_TENANT", "there is no tenant none"),
        (
            ANN._replace(profile="unlinked"),
            "UNKNOWN_QUEUE",
            "there is no queue ml/unlinked; yours are ml/elsewhere, ml/gang, ml/half, ml/huge, ml/nowhere, ml/one, ml/shut, ml/two",
        ),
        (ANN._replace(policy="mm", user="zoe"), "UNKNOWN_QUEUE", "there is no queue mm/two; you have none"),
        (ANN._replace(user="zoe"), "NOT_ALLOWED", "zoe is not in group all, whose queue ml/two is"),
        (ANN._replace(profile="half"), "NOT_ALLOWED", "queue ml/half takes jobs from carl only"),
        (ANN._replace(profile="shut"), "NOT_ALLOWED", "no pool of profile shut is open to default"),
        (ANN._replace(profile="huge"), "EXCEEDS_POOL_CAPACITY", "it asks for 99 gpu, pool hall has 8"),
        (ANN._replace(profile="wide"), "NO_SUITABLE_NODE", "no node of pool hall could hold it"),
        (ANN._replace(profile="nowhere"), "NO_SUITABLE_NODE", "none of the profile's pools (nowhere) exists"),
        (ANN._replace(profile="gang"), "EXCEEDS_POLICY_LIMIT", "it asks for 6 gpu, the limit of policy default/ml is 5"),
        (
            Asker("acme", "ann", "open", "two"),
            "EXCEEDS_TENANT_LIMIT",
            "it asks for 2 gpu, the limit of tenant acme in pool hall is 1",
        ),
    ],
)
def test_a_submission_that_is_understood_may_be_rejected_for_its_queue_and_for_its_size(history, asker, reason, message):
    assert rejection_of(judged(history, asker)) == (reason, message)


@pytest.mark.parametrize(
    "asker",
    [
        ANN,
        ANN._replace(user="bot"),
        ANN._replace(user="carl", profile="half"),
        ANN._replace(user="carl", profile="gang"),
        ANN._replace(profile="elsewhere"),
        Asker("acme", "anybody", "open", "one"),
    ],
)
def test_members_service_accounts_and_those_who_may_go_beyond_the_limit_are_admitted(history, asker):
    assert rejection_of(judged(history, asker)) is None


def test_a_request_may_be_lower_than_the_profile_and_never_higher(history):
    assert judged(history, request={"gpu": "0.5", "cpu": 0}).request == {GPU: GPU_UNITS // 2}
    assert rejection_of(judged(history, request={"cpu": 5})) == (
        "BEYOND_PROFILE",
        "request.cpu: 5 is asked for, profile two gives 4",
    )
    assert rejection_of(judged(history, request={"memory": "1GiB"})) == (
        "BEYOND_PROFILE",
        "request.memory: 1GiB is asked for, profile two gives 0MiB",
    )


def ruled(history, **rules):
    """The group's rules, and a service account that may submit for its members."""
    group = d.Group(
        name="all", members=("ann", "carl"), service_accounts=("bot",), on_behalf=("bot",), runtime=d.RuntimeRules(**rules)
    )
    history.append_facts(f.GroupAppliedV1(author="a.b", group=group), by="governance")


def test_the_groups_rules_are_checked_applied_and_on_record(history):
    rules = {"env": {"HF_HOME": "/data"}, "secrets": {"HF": "file:hf"}, "give_secrets": ("HF",), "default_image": "base:1"}
    ruled(history, **rules, deny_images=("evil*",), deny_env=("LD_*",))
    sealed = []
    submission = msgspec.structs.replace(SUBMISSION, env={"A": "b"})
    fact = judge(
        history.state,
        ANN,
        submission,
        history.now,
        pending=0,
        batch=(),
        seal=lambda *arguments: sealed.append(arguments[2]) or "sealed",
    )
    assert fact.rules == ("image base:1 by default", "env HF_HOME set", "secret HF from file:hf")
    assert (sealed[0].env, sealed[0].secrets, sealed[0].image) == ({"A": "b", "HF_HOME": "/data"}, {"HF": "file:hf"}, "base:1")
    assert rejection_of(judged(history, image="evil:1"))[0] == "RUNTIME_RULE"
    assert rejection_of(judged(history, env={"LD_PRELOAD": "x"}))[0] == "RUNTIME_RULE"
    assert rejection_of(judged(history, secret_env=("OTHER",)))[0] == "RUNTIME_RULE"


def test_a_job_that_asks_for_nothing_gets_the_groups_usual_request(history):
    ruled(history, default_request=gpus(1))
    assert judged(history).request == {GPU: GPU_UNITS, CPU: 4 * CPU_UNITS}
    assert judged(history, request={"gpu": "2"}).request == {GPU: 2 * GPU_UNITS, CPU: 4 * CPU_UNITS}


def test_a_service_account_submits_for_a_member_where_the_group_says_so_and_both_are_on_record(history):
    bot = ANN._replace(user="bot")
    assert acting(history.state, bot, "ann", history.now) == bot
    assert rejection_of(judged(history, bot, on_behalf_of="ann"))[0] == "NOT_ALLOWED"
    ruled(history)
    trusted = acting(history.state, bot, "ann", history.now)
    fact = judged(history, trusted, on_behalf_of="ann")
    assert (fact.job.split(".")[1], fact.submitted_by, fact.on_behalf_of) == ("ann", "default.bot", "")
    for asker, user in ((bot, "eve"), (ANN, "carl"), (bot._replace(policy="none"), "ann")):
        assert rejection_of(judged(history, acting(history.state, asker, user, history.now), on_behalf_of=user))[0] in (
            "NOT_ALLOWED",
            "UNKNOWN_QUEUE",
        )
    assert acting(history.state, bot, "bot", history.now) == bot


def test_a_queue_for_one_account_takes_what_that_submits_for_a_member(history):
    ruled(history)
    document = history.state.policies["default", "ml"].document
    links = tuple(msgspec.structs.replace(link, submitters=("bot",)) for link in document.profiles)
    history.append_facts(
        f.PolicyAppliedV1(author="a.b", policy=msgspec.structs.replace(document, profiles=links)), by="governance"
    )
    assert rejection_of(judged(history))[0] == "NOT_ALLOWED"
    assert (
        rejection_of(judged(history, acting(history.state, ANN._replace(user="bot"), "ann", history.now), on_behalf_of="ann"))
        is None
    )
    assert rejection_of(judged(history, ANN._replace(by="acme.bot")))[0] == "NOT_ALLOWED"  # of that name, in another tenant


def claimed(history, user, *groups, until):
    fact = f.MembershipClaimedV1(tenant="default", handle=user, groups=groups, issued_at=history.now, until=until)
    history.append_facts(fact, by="governance")


def test_a_providers_word_opens_a_queue_and_shuts_it_for_as_long_as_the_token_lives(history):  # R12
    claimed(history, "eve", "all", until=history.now + MINUTE)
    claimed(history, "ann", "lab", until=history.now + MINUTE)
    eve = ANN._replace(user="eve")
    assert rejection_of(judged(history, eve)) is None
    assert rejection_of(judged(history))[0] == "NOT_ALLOWED"
    history.wait(MINUTE)
    assert rejection_of(judged(history, eve))[0] == "NOT_ALLOWED"
    assert rejection_of(judged(history)) is None


def test_a_service_account_may_act_for_who_is_a_member_by_a_providers_word(history):
    ruled(history)
    bot = ANN._replace(user="bot")
    assert acting(history.state, bot, "eve", history.now) == bot
    claimed(history, "eve", "all", until=history.now + MINUTE)
    assert acting(history.state, bot, "eve", history.now) == ANN._replace(user="eve", by="default.bot")


def test_what_may_not_be_preempted_has_to_fit_in_the_reservation(history):
    assert rejection_of(judged(history, preemptible=False)) == (
        "EXCEEDS_RESERVATION",
        "it asks for 2 gpu without being preemptible, policy default/ml has a reservation of 1; submit it as preemptible",
    )
    assert rejection_of(judged(history, preemptible=False, request={"gpu": 1})) is None


def test_what_may_not_be_preempted_is_refused_where_there_are_only_spot_instances():  # R38
    node = d.BurstNode(gpus=2, gpu_model="H100")
    burst = d.Burst(
        provider="local", node=node, max_nodes=2, boot=MINUTE, idle=MINUTE, offers=(d.Offer(name="s", market="spot"),)
    )
    pool = d.Pool(name="sky", selector={"site": "sky"}, burst=burst)
    history = History(policy("ml", 2), pools=(pool,), profiles=(profile("one", pools=("sky",)),))
    asker = Asker("default", "ann", "ml", "one")
    assert rejection_of(judged(history, asker)) is None
    assert rejection_of(judged(history, asker, preemptible=False)) == ("NO_SUITABLE_NODE", "no node of pool sky could hold it")


def test_too_many_pending_jobs_are_refused_with_a_hint_when_to_try_again(history):
    history.admit("ml/one")
    assert rejection_of(judged(history)) is None

    fact = judged(history, pending=1)

    message = "2 jobs are pending in policy ml; try again in 10 s"
    assert (rejection_of(fact), fact.retry_after) == (("TOO_MANY_PENDING", message), 10_000_000)


def test_of_one_user_no_more_jobs_wait_or_are_asked_for_than_the_policy_says(history):
    law = linked("ml", group="all", per_user=d.PerUser(limit=gpus(1), max_pending=1))
    history.law(d.Documents(policies=(law,)))
    assert rejection_of(judged(history, request={"gpu": 1})) is None
    message = "it asks for 2 gpu, the limit of each user in policy default/ml is 1"
    assert rejection_of(judged(history)) == ("EXCEEDS_POLICY_LIMIT", message)
    history.admit("ml/one")
    fact = judged(history, request={"gpu": 1})
    message = "1 jobs of user ann are pending in policy ml, as many as each user may have; try again in 10 s"
    assert (rejection_of(fact), fact.retry_after) == (("TOO_MANY_PENDING", message), 10_000_000)
    assert rejection_of(judged(history, ANN._replace(user="carl"), request={"gpu": 1})) is None


def test_while_storage_is_scarce_no_job_is_admitted_and_it_may_be_tried_again(history):
    history.append_facts(f.StorageStatedV1(scarce=True, used=91, limit=100))
    fact = judged(history, pending=0)
    message = "the disks of the NATS servers are nearly full, and what is left is kept for what runs; try again in 10 s"
    assert (rejection_of(fact), fact.retry_after) == (("DISK_FULL", message), 10_000_000)
    history.append_facts(f.StorageStatedV1(scarce=False, used=80, limit=100))
    assert rejection_of(judged(history, pending=0)) is None


def test_before_the_first_node_has_registered_nothing_is_too_large():
    history = History(linked("ml"), pools=POOLS, profiles=PROFILES)

    assert rejection_of(judged(history, ANN._replace(profile="huge"))) is None


def close(history: History, kind: str, name: str, mode: str, tenant: str = "default") -> None:
    history.append_facts(f.ObjectClosedV1(author="default.root", kind=kind, tenant=tenant, name=name, mode=mode))


@pytest.mark.parametrize("mode", ["drain", "cancel"])
@pytest.mark.parametrize(
    ("kind", "tenant", "name"),
    [("policy", "default", "ml"), ("profile", "", "two"), ("group", "default", "all"), ("pool", "", "hall")],
)
def test_what_is_on_its_way_out_takes_nothing_new(history, mode, kind, tenant, name):
    close(history, kind, name, mode, tenant)
    fact = judged(history)
    assert (fact.reason, fact.message.split(" by ")[0].split(" is ")[0]) == (
        "QUEUE_DELETED",
        f"{kind} {tenant}/{name}" if tenant else f"{kind} {name}",
    )


def test_what_is_frozen_takes_jobs_which_wait(history):
    close(history, "policy", "ml", "freeze")
    close(history, "pool", "hall", "freeze", "")
    assert isinstance(judged(history), f.JobAdmittedV1)


UNSTATED = (
    "network: profile gang has 2 replicas and does not say which network their containers have; write network: host in the profile if they "
    "have to reach each other, else network: private; or submit without an image"
)


def test_containers_of_a_gang_need_a_profile_that_says_which_network_they_have(history):
    """R44."""

    def verdict(name: str, image: str) -> tuple[str, str] | None:
        return rejection_of(judged(history, ANN._replace(profile=name, user="carl"), image=image))

    assert verdict("gang", "trainer:1") == ("NETWORK_UNSTATED", UNSTATED)
    assert [verdict("gang", ""), *(verdict(name, "trainer:1") for name in ("x-host", "x-private", "two"))] == [None] * 4


def test_below_level_3_containers_of_a_gang_are_admitted_as_ever(history):
    """R44."""
    history.state.terms.level = 2
    fact = judged(history, ANN._replace(profile="gang", user="carl"), image="trainer:1")
    assert (type(fact), rejection_of(fact)) == (f.JobAdmittedV1, None)
