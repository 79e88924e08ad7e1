"""A bridge in one process: the real rules and the real steps, over a cluster and an installation that may lie, lag and vanish."""

from __future__ import annotations

from collections.abc import Coroutine
from random import Random
from typing import Any

from headrace.bus.log import WrongLast
from headrace.contracts.messages.orders import NodeAnswer
from headrace.contracts.messages.queries import JobView
from headrace.contracts.values.ids import job_key
from headrace.kubernetes.acting import Acting, ApiAway, ApiRefused, LedgerAway
from headrace.kubernetes.decide import decide, living
from headrace.kubernetes.matching import Matching, doubted
from headrace.kubernetes.objects import QUEUE, foreign_gpus, read_node, read_pod
from headrace.kubernetes.view import State, View
from headrace.kubernetes.waiting import lacking
from tests.kubernetes.cluster import GPU, Cluster, Refusal
from tests.kubernetes.hall import Hall

ACCOUNTS = {"red": "default.red", "blue": "default.blue"}
NAME = "test"


def finished(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waited")


class Faults:
    """What goes wrong: `often` is the chance in percent that a call is lost, before or after its effect."""

    def __init__(self, random: Random, often: int = 0) -> None:
        self.random = random
        self.often = often
        self.ledger_away = False

    def before(self) -> bool:
        return self.random.randrange(100) < self.often

    after = before


class FaultyPods:
    """The calls of `Pods` over a cluster."""

    def __init__(self, cluster: Cluster, hall: Hall, faults: Faults) -> None:
        self.cluster, self.hall, self.faults = cluster, hall, faults
        self.ungated: list[tuple[str, int, int]] = []

    def _call(self, work: Any, *arguments: Any) -> Any:
        if self.faults.before():
            raise ApiAway("no answer")
        try:
            result = work(*arguments)
        except Refusal as error:
            refused = ApiAway(str(error), error.status) if error.status >= 500 else ApiRefused(error.status, str(error))
            raise refused from None
        if self.faults.after():
            raise ApiAway("the answer is lost")
        return result

    async def patch(self, namespace: str, name: str, patch: Any, subresource: str = "") -> None:
        self._call(self.cluster.patch, "pods", namespace, name, patch, subresource)
        if "schedulingGates" in patch.get("spec", {}):
            self._check_granted(read_pod(self.cluster.get("pods", namespace, name), GPU))

    def _check_granted(self, pod: Any) -> None:
        """Whatever is seen late or lost, a gate comes off only for what the ledger has granted on that node."""
        job = self.hall.state.jobs[job_key(*ACCOUNTS[pod.namespace].split("."), pod.job)]
        attempt = next(one for one in job.attempts if one.number == pod.held.attempt)
        assert attempt.nodes[pod.rank] == pod.target
        assert job.request.amounts.get("gpu", 0) == pod.needs.gpus * 126_000

    async def evict(self, namespace: str, name: str, body: Any) -> None:
        self._call(self.cluster.evict, namespace, name, body)

    async def delete(self, namespace: str, name: str, options: Any) -> None:
        self._call(self.cluster.delete, namespace, name, options)

    async def record_event(self, namespace: str, event: Any) -> None:
        self._call(self.cluster.record_event, namespace, event)

    async def look(self, namespace: str, selector: str) -> Any:
        return self._call(self.cluster.list, "pods", namespace, selector)


class FaultyLedger:
    """The calls of `Ledger` over an installation."""

    def __init__(self, hall: Hall, faults: Faults) -> None:
        self.hall, self.faults = hall, faults

    def _call(self, work: Any, *arguments: Any) -> None:
        if self.faults.ledger_away or self.faults.before():
            raise LedgerAway("no answer")
        try:
            work(*arguments)
        except WrongLast as error:
            raise LedgerAway(str(error)) from None
        if self.faults.after():
            raise LedgerAway("the answer is lost")

    async def submit(self, namespace: str, queue: str, submission: Any) -> None:
        self._call(self.hall.submit, ACCOUNTS[namespace], queue, submission)

    async def cancel(self, namespace: str, job: str, reason: str) -> None:
        self._call(self.hall.cancel, job, reason)

    async def append(self, node: str, payload: bytes, last: int) -> None:
        self._call(self.hall.append, node, payload, last)


class Bridge:
    """One bridge, which may lag and be started again."""

    def __init__(self, cluster: Cluster, hall: Hall, faults: Faults) -> None:
        self.cluster, self.hall, self.faults = cluster, hall, faults
        self.restart()

    def restart(self) -> None:
        """Forget everything."""
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.version = -1
        self.answers: dict[str, NodeAnswer] = {}
        self.jobs: dict[str, JobView] = {}
        self.lacking: dict[str, int] = {}
        self.doubted: dict[str, int] = {}
        self.acting = Acting(
            FaultyPods(self.cluster, self.hall, self.faults),
            FaultyLedger(self.hall, self.faults),
            lambda: self.hall.now,
            GPU,
        )

    def watch(self, most: int | None = None) -> None:
        """Take over what has changed, at most `most` changes; list anew if the watch is too old."""
        try:
            changes = self.cluster.since(self.version)[:most]
        except Refusal:  # too old, or not listed yet
            self.objects = {
                (kind, raw["metadata"].get("namespace", ""), raw["metadata"]["name"]): raw
                for kind in ("pods", "nodes")
                for raw in self.cluster.list(kind)
            }
            self.version = self.cluster.version
            return
        for change in changes:
            meta = change.raw["metadata"]
            key = change.kind, meta.get("namespace", ""), meta["name"]
            if change.type == "DELETED":
                self.objects.pop(key, None)
            else:
                self.objects[key] = change.raw
            self.version = change.version

    def ask(self, *, fresh: bool = True) -> None:
        """Ask the ledger, or go on with what it said before."""
        if self.faults.ledger_away or not (fresh or not self.answers):
            return
        nodes = [raw["metadata"]["name"] for (kind, _, _), raw in self.objects.items() if kind == "nodes"]
        self.answers = {node: self.hall.answer(node) for node in nodes}
        self.jobs = self.hall.jobs(NAME)

    def view(self) -> View:
        raws = [raw for (kind, _, _), raw in sorted(self.objects.items()) if kind == "pods"]
        ours = [raw for raw in raws if QUEUE in raw["metadata"].get("labels", {})]
        pods = tuple(read_pod(raw, GPU) for raw in ours)
        foreign: dict[str, int] = {}
        for raw in raws:
            if raw not in ours:
                node, gpus = foreign_gpus(raw, GPU)
                foreign[node] = foreign.get(node, 0) + gpus
        jobs: dict[str, JobView | None] = dict(self.jobs)
        if not self.faults.ledger_away:
            for pod in pods:
                if pod.job and pod.namespace in ACCOUNTS:
                    key = job_key(*ACCOUNTS[pod.namespace].split("."), pod.job)
                    jobs.setdefault(key, self.hall.job(key))
        nodes = (read_node(raw, GPU) for (kind, _, _), raw in sorted(self.objects.items()) if kind == "nodes")
        listed = frozenset() if self.faults.ledger_away else frozenset(ACCOUNTS.values())
        view = View(
            NAME, ACCOUNTS, pods, tuple(node for node in nodes if node is not None), self.answers, jobs, listed,
            self.acting.registered, foreign, {}, {}, self.hall.now,
        )  # fmt: skip
        seen = Matching(view)
        self.lacking, self.doubted = lacking(seen, self.lacking), doubted(seen, self.doubted)
        return view._replace(lacking=self.lacking, doubted=self.doubted)

    def round(self, shuffled: bool = False, most: int | None = None) -> int:
        """Decide and act: all steps, or the first `most` of them in any order. Returns their number, registrations left out."""
        view = self.view()
        if not self.faults.ledger_away:
            self.hall.beat(living(view))
        steps = list(decide(view))
        if shuffled:
            self.faults.random.shuffle(steps)
        for step in steps[:most]:
            finished(self.acting.take(step))
        return sum(
            1 for step in steps if not (isinstance(step, State) and step.facts[0].__class__.__name__ == "NodeRegisteredV1")
        )
