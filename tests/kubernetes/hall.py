"""Headrace behind the bridge, in one process: the real admission, allocator, preemption and fold, and the feed's answers."""

from __future__ import annotations

from typing import Any

from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.facts import JobRejectedV1
from headrace.contracts.facts.writers import PREEMPTION
from headrace.contracts.messages.orders import NodeAnswer
from headrace.contracts.messages.queries import JobView
from headrace.contracts.messages.submissions import CancelRequest, JobSubmission, JobText
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import cancel, ledger, submit
from headrace.contracts.values.ids import split_job_key
from headrace.domain.state.state import State
from headrace.feed.orders import answer
from headrace.kubernetes.identity import CLUSTER
from headrace.preemption.decide import PreemptionWatch
from headrace.simulate.scenario import read_scenario
from headrace.simulate.virtual_system import START
from headrace.simulate.world import World
from headrace.views.tenant_views import WaitReasons, job_view

TEXT = JobText(command=("sh",))
SILENCE = 60_000_000


class NoMachines:
    """No simulated nodes: the bridge speaks for all of them."""

    def react(self, fact: object, now: int) -> None: ...
    def pass_time(self, now: int) -> None: ...
    def take_facts(self) -> list[Any]:
        return []

    def next_due(self) -> None:
        return None

    def will_end(self) -> bool:
        return False


class LastSeen:
    """When nodes last sent a heartbeat, for the rule that gives silent ones up."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.at: dict[str, int] = {}

    def silence(self, node: str) -> int:
        return self.world.now - self.at.setdefault(node, self.world.now)


class Hall:
    """One installation, whose time passes on demand."""

    def __init__(self, documents: str, start: int = START) -> None:
        self.world = World(read_scenario(read_tree(documents)), judged=False, start=start)
        self.world.begin()
        self.world.machines = NoMachines()  # type: ignore[assignment]
        self.last_seen = LastSeen(self.world)
        self.world.deciders[PREEMPTION] = PreemptionWatch(self.world.state, self.last_seen)
        self._rejected: dict[str, JobView] = {}
        self.world.listeners.append(self._listen)

    def _listen(self, fact: object, _now: int) -> None:
        if isinstance(fact, JobRejectedV1):
            tenant, user, job = split_job_key(fact.job)
            self._rejected[fact.job] = JobView(
                id=job, job=fact.job, tenant=tenant, user=user, name=fact.name, queue=f"{fact.policy}/{fact.profile}",
                state="rejected", reason=fact.reason, message=fact.message,
            )  # fmt: skip

    @property
    def state(self) -> State:
        return self.world.state

    @property
    def now(self) -> int:
        return self.world.now

    def beat(self, nodes: list[str]) -> None:
        for node in nodes:
            self.last_seen.at[node] = self.now

    def pass_to(self, now: int) -> None:
        self.world.pass_to(now)

    def answer(self, node: str) -> NodeAnswer:
        return answer(self.state, node, lambda _job: TEXT, self.now)

    def jobs(self, cluster: str) -> dict[str, JobView]:
        """Jobs of the bridge that have not ended."""
        waits = WaitReasons(self.state, self.now)
        return {
            key: job_view(job, waits, all_attempts=False)
            for key, job in self.state.jobs.items()
            if job.labels.get(CLUSTER) == cluster and job.state.value not in ("succeeded", "failed", "cancelled")
        }

    def job(self, key: str) -> JobView | None:
        job = self.state.jobs.get(key)
        if job is not None:
            return job_view(job, WaitReasons(self.state, self.now), all_attempts=False)
        return self._rejected.get(key)

    def submit(self, account: str, queue: str, submission: JobSubmission) -> None:
        tenant, user = account.split(".")
        policy, profile = queue.split("/")
        self.world.publish(submit(tenant, user, policy, profile), encode(submission))
        self.world.run_until_stable()

    def cancel(self, key: str, reason: str) -> None:
        self.world.publish(cancel(*split_job_key(key)), encode(CancelRequest(reason=reason)))
        self.world.run_until_stable()

    def append(self, node: str, payload: bytes, last: int) -> None:
        """Store a node's record, if it stands behind its last one. Raises MemoryLog's error otherwise."""
        sequence = self.world.log.append_now(ledger(f"node.{node}"), payload, last)
        (message,) = self.world.log.messages_after(sequence - 1)
        read = self.world.ledger.read(message)
        assert read is not None, self.world.ledger.void_reason
        self.world.run_until_stable()
