"""The whole system in one process: seeds that have to go well, the same bytes each time, and faults of ours that have to be found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
from msgspec import structs, to_builtins

from headrace.admission import decide as deciding
from headrace.admission.decide import Admission
from headrace.admission.judge import judge
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import STREAMS
from headrace.contracts import facts as f
from headrace.contracts.transport.codec import decode_record, decode_submit
from headrace.contracts.transport.subjects import SUBMIT_STREAM
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.domain.fold.apply import HANDLERS
from headrace.host.layouts import APART, DEFAULT, TOGETHER
from headrace.node_executor.core import lease as life
from headrace.node_executor.core import node as nodes
from headrace.node_executor.reporting.journal import Journal
from headrace.simulate.scenario import Nodes, Submit
from tests.simulation.campaign import main
from tests.simulation.clockwork import current
from tests.simulation.halls import HALL
from tests.simulation.machines import SECOND, Behaviour, Machine
from tests.simulation.network import Network
from tests.simulation.nodes import Hands
from tests.simulation.plan import Fault, Job, Plan, draw, read, write
from tests.simulation.shrinking import shrink, sort_of
from tests.simulation.world import play

ROOT = Path(__file__).parents[2]
SEEDS = ("6", "13", "17", "20", "31", "67")
"""Few, and eventful ones; `make sim` plays thousands."""
FEW = 40


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_goes_wrong_no_promise_is_broken_and_all_comes_to_its_end(seed):
    outcome = play(draw(seed))
    assert outcome.violations == []
    assert outcome.facts > 100


def test_no_decision_of_any_service_changes_the_state_that_it_reads():
    outcome = play(draw("6"), hashes=True)
    assert (outcome.violations, outcome.digest) == ([], play(draw("6")).digest)


@pytest.mark.parametrize("layout", [DEFAULT, TOGETHER])
@pytest.mark.parametrize("seed", SEEDS[:3])
def test_services_that_share_a_process_break_no_promise_either(seed, layout):
    outcome = play(draw(seed), layout=layout)
    assert outcome.violations == []
    assert outcome.facts > 100


def facts_of(plan, layout):
    """The facts of each writer in their order, without moments, which hang on how long messages take."""
    worlds = []
    assert play(plan, worlds.append, layout=layout).violations == []
    facts = defaultdict(list)
    for message in worlds[0].network.ledger.messages_after(0):
        record = decode_record(message.payload)
        facts[record.by] += [without_moments(to_builtins(fact)) for fact in record.facts]
    return facts


def without_moments(value):
    if isinstance(value, dict):
        return {key: without_moments(one) for key, one in value.items() if not (isinstance(one, int) and one > 1_000 * SECOND)}
    return list(map(without_moments, value)) if isinstance(value, (list, tuple)) else value


def test_without_faults_each_layout_states_the_same_facts():
    jobs = tuple(
        Job(
            (2 + 10 * number) * SECOND,
            Submit(name=f"job{number}", queue="ml/one", tenant="default", user=("ann", "bob")[number % 2]),
            Behaviour(duration=(33 + 110 * (number % 3)) * SECOND // 10, exit_code=number % 4 // 3),
        )
        for number in range(6)
    )
    nodes = Nodes(name="n", labels={"site": "hall"}, gpus=1, gpu_model="H100-80GB", cpus=4, count=2)
    plan = Plan(seed="quiet", until=90 * SECOND, documents=HALL, nodes=(nodes,), jobs=jobs)
    apart = facts_of(plan, APART)
    assert {by: len(facts) for by, facts in apart.items() if not by.startswith("node.")} == {
        "governance": 5,
        "admission": 14,
        "allocator": 12,
    }
    assert facts_of(plan, DEFAULT) == apart
    assert facts_of(plan, TOGETHER) == apart


def test_a_seed_gives_the_same_bytes_in_any_process():
    program = "from tests.simulation.campaign import run; print(run('13').digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hashes, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hashes in ("1", "4711")
    }
    assert digests == {f"{play(draw('13')).digest}\n"}


def test_a_plan_out_of_a_file_is_the_same_run(tmp_path, capsys):
    path = tmp_path / "made" / "plan.json"
    write(draw("13"), path)
    assert read(path) == draw("13")
    assert main(["--plan", str(path)]) == 0
    assert play(draw("13")).digest in capsys.readouterr().out


def one_job(seconds, *faults):
    """One that begins after two seconds, and a machine for it."""
    submission = Submit(name="job", queue="ml/one", tenant="default", user="ann")
    job = Job(2 * SECOND, submission, Behaviour(duration=seconds * SECOND))
    node = Nodes(name="n1", labels={"site": "hall"}, gpus=1, gpu_model="H100-80GB", cpus=4)
    return Plan(seed="one", until=12 * SECOND, documents=HALL, nodes=(node,), jobs=(job,), faults=faults)


def test_what_an_executor_was_about_to_start_when_it_was_killed_is_started_by_the_next_one_only(monkeypatch):
    lives, honest = [], Hands.begin_job

    def struck(self, order):
        honest(self, order)
        lives.append(current())
        current().crash_in = len(lives) == 1  # behind this very step: the journal has it, and the process is still to come

    monkeypatch.setattr(Hands, "begin_job", struck)

    outcome = play(one_job(1))

    assert [outcome.violations, len(set(lives))] == [[], 2]


def test_what_an_executor_was_told_while_it_was_stopped_is_never_heard_if_it_was_killed_then():
    faults = Fault(10 * SECOND, "stop", "n1", span=70 * SECOND), Fault(15 * SECOND, "halt", "n1", span=5 * SECOND)

    outcome = play(structs.replace(one_job(10, *faults), until=40 * SECOND))

    assert outcome.violations == []
    assert (outcome.counts["fault: stop"], outcome.counts["fault: halt"]) == (1, 1)


def test_what_ran_when_a_machine_lost_its_power_and_its_journal_runs_again_as_the_next_attempt(monkeypatch):
    worlds, honest = [], Machine.power_off

    def forgets(self, known):
        honest(self, known)
        self.disk.lines.clear()

    monkeypatch.setattr(Machine, "power_off", forgets)

    outcome = play(one_job(9, Fault(8 * SECOND, "power", "n1", SECOND)), worlds.append)

    attempts = [lease.split("/", 1)[1] for lease in worlds[0].machines["n1"].starts]
    assert [outcome.violations, attempts] == [[], ["1/0", "2/0"]]


LAW = structs.replace(HALL, policies=(structs.replace(HALL.policies[0], limit={GPU: 4 * GPU_UNITS}),))


def crash_of_everything(seed):
    """Four jobs run and two wait when everything dies; others come while it rises again, and all are there for five minutes."""
    jobs = []
    for number in range(14):
        submission = Submit(name=f"job-{number}", queue="ml/one", tenant="default", user="ann")
        at = 2 * SECOND + number * SECOND // 10 if number < 6 else 48 * SECOND + number * SECOND // 2
        jobs.append(Job(at, submission, Behaviour(duration=300 * SECOND, term_takes=number % 4 * 2 * SECOND)))
    node = Nodes(name="n1", labels={"site": "hall"}, gpus=4, gpu_model="H100-80GB", cpus=16)
    crash = Fault(20 * SECOND, "everything", "nats", 25 * SECOND)
    return Plan(seed, until=90 * SECOND, documents=LAW, nodes=(node,), jobs=tuple(jobs), faults=(crash,))


@pytest.mark.parametrize("seed", ["1", "2", "12", "13", "19"])
def test_after_a_crash_of_everything_at_once_jobs_run_again_and_no_node_is_set_aside(seed):
    """What a node has to say of its earlier life comes after new grants, in pieces; users submit while everything rises (R36)."""
    outcome = play(crash_of_everything(seed))

    assert (outcome.violations, outcome.counts["fault: everything"]) == ([], 1)


def found(first, drawn=draw):
    """The first seed that shows that something is wrong, and what; `first` is known to, as long as histories are what they are."""
    for number in range(first, first + FEW):
        outcome = play(drawn(str(number)))
        if outcome.violations:
            return outcome
    raise AssertionError(f"{FEW} seeds have found nothing")


class TestWhatIsFound:
    def test_a_writer_that_appends_without_a_condition(self, monkeypatch):
        honest = JetStreamLog.append

        async def anyhow(self, subject, payload, expected_last):
            return await honest(self, subject, payload, None)

        monkeypatch.setattr(JetStreamLog, "append", anyhow)
        assert "void" in found(29).violations[0]

    def test_an_executor_that_forgets_what_it_has_begun(self, monkeypatch):
        monkeypatch.setattr(Journal, "began", lambda self, order: None)
        assert "has several owners at once" in found(23).violations[0]

    def test_a_node_that_lets_go_of_nothing_that_was_taken_from_it(self, monkeypatch):
        honest = life.stop

        def deaf(lease, ladder, at, out):
            if ladder.cause != "revoked":
                honest(lease, ladder, at, out)

        cut = Fault(10 * SECOND, "cut", "n1", span=80 * SECOND)  # so long that the node is lost and the job is taken from it
        plan = structs.replace(one_job(7_200, cut), until=120 * SECOND)
        assert play(plan).violations == []
        monkeypatch.setattr(nodes.life, "stop", deaf)
        assert "still runs on n1" in play(plan).violations[0]

    def test_a_fold_that_forgets_a_release(self, monkeypatch):
        honest = HANDLERS[f.LeaseEndedV1]

        def forgetful(state, fact, sequence, place):
            if sequence % 4:
                honest(state, fact, sequence, place)

        monkeypatch.setitem(HANDLERS, f.LeaseEndedV1, forgetful)
        assert "does not end" in found(1).violations[0]

    def test_a_node_that_kills_at_once(self, monkeypatch):
        monkeypatch.setitem(
            life.RULES, (life.Phase.NOTIFIED, life.Notified), lambda lease, event, out: life.kill(lease, event.at, out)
        )
        assert "was promised" in found(2).violations[0]

    def test_an_admission_that_passes_over_a_submission(self, monkeypatch):
        honest = Admission.judge_message

        def careless(self, message, now):
            return message.sequence % 5 == 0 or honest(self, message, now)

        monkeypatch.setattr(Admission, "judge_message", careless)
        assert "was acknowledged and was never judged" in " ".join(found(1).violations)

    @pytest.mark.parametrize(("gateway", "first"), [(True, 27), (False, 10)], ids=["by the gateway", "by clients"])
    def test_messages_that_bear_the_id_of_their_first_job(self, monkeypatch, gateway, first):
        """So that the server drops whatever begins with a job that has been submitted before, and says that it has it."""
        honest = Network.append

        def named(self, stream, subject, payload, headers):
            if subject.startswith("hr.submit."):
                headers = headers | {"Nats-Msg-Id": decode_submit(payload)[0].id}
            answer = honest(self, stream, subject, payload, headers)
            return {name: value for name, value in answer.items() if name != "duplicate"}

        def one_way(seed):
            plan = draw(seed)
            again = tuple(request for request in plan.again if request.gateway == gateway)
            return structs.replace(plan, jobs=tuple(structs.replace(job, gateway=gateway) for job in plan.jobs), again=again)

        monkeypatch.setattr(Network, "append", named)
        monkeypatch.setitem(STREAMS, SUBMIT_STREAM, STREAMS[SUBMIT_STREAM] | {"duplicate_window": 120_000_000_000})
        assert "was acknowledged and was never judged" in " ".join(found(first, one_way).violations)

    def test_a_decision_that_changes_the_state(self, monkeypatch):
        honest = Admission.decide

        def meddling(self, now):
            self.state.refusals["acme", "ann"] = (0, now)
            return honest(self, now)

        monkeypatch.setattr(Admission, "decide", meddling)
        violations = play(draw("6"), hashes=True).violations
        assert "a decision of admission changed the state: State.refusals" in violations[0]

    def test_an_admission_that_gives_jobs_what_no_rule_gives_them(self, monkeypatch):
        def generous(*asked, **more):
            fact = judge(*asked, **more)
            return structs.replace(fact, rules=("mount /home",)) if isinstance(fact, f.JobAdmittedV1) else fact

        monkeypatch.setattr(deciding, "judge", generous)
        assert "what was decided is not what would be decided" in found(1).violations[0]


def test_a_plan_is_made_as_small_as_what_fails_allows():
    plan = draw("12")
    fault, jobs = plan.faults[len(plan.faults) // 2], (plan.jobs[0], plan.jobs[-1])

    small = shrink(plan, lambda plan: fault in plan.faults and all(job in plan.jobs for job in jobs))

    left = small.faults, small.acts, small.again, small.jobs, small.nodes
    assert left == ((fault,), (), (), jobs, ())
    assert small.until == max(fault.at, jobs[-1].at) + SECOND < plan.until


def test_a_run_that_fails_is_made_smaller_and_fails_in_the_same_way(monkeypatch):
    monkeypatch.setattr(Journal, "began", lambda self, order: None)
    outcome = found(3)
    sort = sort_of(outcome.violations[0])
    plan = draw(outcome.seed)
    small = shrink(plan, lambda plan: any(sort_of(one) == sort for one in play(plan).violations), tries=5)
    sizes = [len(one.faults) + len(one.acts) + len(one.jobs) for one in (small, plan)]
    assert sizes[0] < sizes[1]
    assert sort in [sort_of(one) for one in play(small).violations]
