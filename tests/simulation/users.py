"""Those who want something of the system: they submit, change their minds, administrate, ask, and try again where nobody answers."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.bus.log import LogError, LogRefused
from headrace.contracts.codec import encode
from headrace.contracts.document_writer import write_documents
from headrace.contracts.durations import format_duration
from headrace.contracts.ids import job_key, make_job_id
from headrace.contracts.queries import Answer, ApplyRequest, DeleteRequest, ForceRequest, JobRequest, NodeRequest
from headrace.contracts.subjects import cancel, query, requeue, submit
from headrace.contracts.wishes import JobWish
from headrace.domain.job_states import FINAL
from tests.simulation.clockwork import OUTSIDE, Process
from tests.simulation.network import ServiceConnection
from tests.simulation.plan import Act, Job

if TYPE_CHECKING:
    from tests.simulation.world import World

TRIES = 60
ADMINISTRATOR = ("provider", "admin")


class Users:
    """All of them, on one connection. `acknowledged`: jobs whose wish the server has said to have, and at which place."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.acknowledged: dict[str, int] = {}
        self.keys: dict[str, str] = {}
        self.busy = 0
        self._connection: asyncio.Task[ServiceConnection] | None = None
        self._process = Process("users")
        self._numbers = 0

    def begin(self) -> None:
        """Do everything in its time."""
        self.world.processes["users"] = [self._process]
        self._connection = self._process.run(ServiceConnection.dialled(self.world.network, "users"))
        loop, plan = self.world.loop, self.world.plan
        for job in plan.jobs:
            loop.call_at(job.at / 1_000_000, self._submit, job)
        for act in plan.acts:
            loop.call_at(act.at / 1_000_000, self._act, act)

    async def _connected(self) -> ServiceConnection:
        if self._connection is None:
            raise LogError("nobody has begun")
        return await asyncio.shield(self._connection)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        self.busy += 1
        task = self.world.loop.create_task(work, context=self._process.context)
        task.add_done_callback(self._done, context=OUTSIDE.context)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.busy -= 1
        if not task.cancelled() and task.exception() is not None and not self.world.over:
            self.world.watch.wrong(f"a user is told something that makes no sense: {task.exception()!r}")

    def _submit(self, job: Job) -> None:
        row = job.wish
        policy, profile = row.queue.split("/")
        self._numbers += 1
        job_id = make_job_id(self.world.network.clock() // 1_000, self._numbers.to_bytes(10, "big"))
        key = self.keys[row.name] = job_key(row.tenant, row.user, job_id)
        wish = JobWish(
            id=job_id,
            command=("run", msgspec.json.encode(job.behaviour).decode()),
            name=row.name,
            preemptible=row.preemptible,
            priority=row.priority,
            retries=row.max_retries,
            time_limit="" if row.time_limit is None else format_duration(row.time_limit),
            on_abort=("save",) if job.on_abort else (),
        )
        headers = {"Nats-Msg-Id": key}
        self._do(self._wish(submit(row.tenant, row.user, policy, profile), encode(wish), headers, key))

    async def _wish(self, subject: str, payload: bytes, headers: dict[str, str], key: str = "") -> None:
        for _ in range(TRIES):
            try:
                answer = await (await self._connected()).ask(subject, payload, headers)
                said = msgspec.json.decode(answer.data)
                if "error" not in said:
                    if key:
                        self.acknowledged[key] = said["seq"]
                    return
            except LogError:
                pass
            await asyncio.sleep(1.0)

    def _act(self, act: Act) -> None:
        key = self.keys.get(act.target, "")
        self.world.counts[f"act: {act.kind}"] += 1
        if act.kind in ("cancel", "requeue") and key:
            made = cancel if act.kind == "cancel" else requeue
            self._do(self._wish(made(*key.split(".")), b"{}", {}))
        elif act.kind in ("finish", "fail") and key:
            self._end(key, 0 if act.kind == "finish" else 3)
        elif act.kind == "join" and act.node is not None and act.target not in self.world.machines:
            self.world.add_machine(act.target, act.node)
            self.world.launch(act.target)
        elif act.kind == "ask" and key:
            tenant, user, job = key.split(".")
            self._do(self._ask(query("feed", "why", tenant, user), encode(JobRequest(job=job))))
        elif act.kind not in ("join", "ask"):
            self._administrate(act, key)

    def _end(self, key: str, code: int) -> None:
        for machine in self.world.machines.values():
            for one in list(machine.running.values()):
                if one.order.job == key:
                    one.finished = code == 0
                    machine.end(one, code)

    def _administrate(self, act: Act, key: str) -> None:
        if act.kind == "apply" and act.documents is not None:
            self.govern("apply", ApplyRequest(documents=write_documents(act.documents)))
        elif act.kind == "delete" and act.delete is not None:
            row = act.delete
            tenant = row.tenant if row.kind in ("policy", "group") else ""
            self.govern("delete", DeleteRequest(kind=row.kind, name=row.name, tenant=tenant, mode=row.mode))
        elif act.kind == "force" and key:
            self.govern("preempt", ForceRequest(job=key, force=True, reason="simulated"))
        elif act.kind in ("drain", "cordon", "uncordon"):
            self.govern(act.kind, NodeRequest(node=act.target))

    def govern(self, what: str, request: object) -> None:
        """An administrator asks for it."""
        self._do(self._ask(query("governance", what, *ADMINISTRATOR), encode(request)))

    async def _ask(self, subject: str, payload: bytes) -> None:
        for _ in range(5):
            try:
                said = await (await self._connected()).ask(subject, payload)
            except LogRefused:
                return
            except LogError:
                await asyncio.sleep(1.0)
                continue
            answer = msgspec.json.decode(said.data, type=Answer)
            self.world.counts[f"answered: {answer.code or 'well'}"] += 1
            if answer.code == "INTERNAL":
                self.world.watch.wrong(f"{subject} is answered: {answer.error}")
            return

    async def tidy_up(self) -> None:
        """Nodes that lied, or seemed to, are looked at and let in again."""
        await asyncio.sleep(5.0)
        for node in [node.name for node in self.world.watch.state.nodes.values() if node.cordoned]:
            self.govern("confirm-empty", NodeRequest(node=node))
            self.govern("uncordon", NodeRequest(node=node))

    def cancel_all(self) -> None:
        """Nobody wants anything any more."""
        for key, job in self.world.watch.state.jobs.items():
            if job.state not in FINAL:
                self._do(self._wish(cancel(*key.split(".")), b"{}", {}))
