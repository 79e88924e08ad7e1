"""Those who want something of the system: they submit (`submitting`), change their minds, administrate, and try again without an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.bus.log import LogError, LogRefused
from headrace.contracts.documents.writer import write_documents
from headrace.contracts.messages.queries import Answer, ApplyRequest, DeleteRequest, ForceRequest, JobRequest, NodeRequest
from headrace.contracts.messages.submissions import CancelManyRequest
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import cancel, cancel_many, query, requeue
from headrace.domain.model.job_states import FINAL
from tests.simulation.clockwork import OUTSIDE, Process
from tests.simulation.network import SimulatedConnection
from tests.simulation.plan import Act
from tests.simulation.submitting import TRIES, Submitting

if TYPE_CHECKING:
    from tests.simulation.world import World

ADMINISTRATOR = ("provider", "admin")


class Users:
    """All of them, on one connection."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.submitting = Submitting(world, self._connected, self._do)
        self.busy = 0
        self._connection: asyncio.Task[SimulatedConnection] | None = None
        self._process = Process("users")

    def begin(self) -> None:
        """Do everything in its time."""
        self.world.processes["users"] = [self._process]
        self._connection = self._process.run(SimulatedConnection.dialled(self.world.network, "users"))
        loop, plan = self.world.loop, self.world.plan
        self.submitting.begin()
        for act in plan.acts:
            loop.call_at(act.at / 1_000_000, self._act, act)

    async def _connected(self) -> SimulatedConnection:
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

    async def _request(self, subject: str, payload: bytes = b"{}") -> None:
        for _ in range(TRIES):
            try:
                answer = await (await self._connected()).ask(subject, payload)
                if "error" not in msgspec.json.decode(answer.data):
                    return
            except LogError:
                pass
            await asyncio.sleep(1.0)

    def _act(self, act: Act) -> None:
        key = self.submitting.keys.get(act.target, "")
        self.world.counts[f"act: {act.kind}"] += 1
        if act.kind in ("cancel", "requeue") and key:
            made = cancel if act.kind == "cancel" else requeue
            self._do(self._request(made(*key.split("."))))
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
                reply = await (await self._connected()).ask(subject, payload)
            except LogRefused:
                return
            except LogError:
                await asyncio.sleep(1.0)
                continue
            answer = msgspec.json.decode(reply.data, type=Answer)
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
        """Nothing is wanted any more: each user cancels all in one request."""
        left: dict[tuple[str, str], list[str]] = {}
        for key, job in self.world.watch.state.jobs.items():
            if job.state not in FINAL:
                tenant, user, job_id = key.split(".")
                left.setdefault((tenant, user), []).append(job_id)
        for owner, ids in left.items():
            self._do(self._request(cancel_many(*owner), encode(CancelManyRequest(jobs=tuple(ids)))))
