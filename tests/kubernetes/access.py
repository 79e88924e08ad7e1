"""The bridge's ways into an installation of one process, whose time is the machine's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.bus.log import WrongLast
from headrace.contracts.values.ids import job_key
from headrace.kubernetes.acting import LedgerAway
from headrace.kubernetes.service import wall_clock
from tests.kubernetes.hall import Hall


class HallAccess:
    """As `LedgerAccess`. `given`: by namespace the account of its jobs."""

    def __init__(self, hall: Hall, given: dict[str, str]) -> None:
        self.hall = hall
        self.given = given
        self.is_away = False

    def _reach(self) -> Hall:
        if self.is_away:
            raise LedgerAway("away")
        self.hall.pass_to(wall_clock())
        return self.hall

    async def answers(self, wanted: Iterable[str]) -> Any:
        if self.is_away:
            return {}
        return {node: self._reach().answer(node) for node in wanted}

    async def accounts(self) -> dict[str, str]:
        return dict(self.given)

    async def jobs(self, cluster: str, labelled: Mapping[str, Iterable[str]]) -> Any:
        if self.is_away:
            return {}, frozenset()
        hall = self._reach()
        found: dict[str, Any] = dict(hall.jobs(cluster))
        for namespace, ids in labelled.items():
            for job_id in ids if namespace in self.given else ():
                key = job_key(*self.given[namespace].split("."), job_id)
                found.setdefault(key, hall.job(key))
        return found, frozenset(self.given.values())

    def forget(self, keys: Iterable[str]) -> None: ...

    async def submit(self, namespace: str, queue: str, submission: Any) -> None:
        self._reach().submit(self.given[namespace], queue, submission)

    async def cancel(self, namespace: str, job: str, reason: str) -> None:
        self._reach().cancel(job, reason)

    async def append(self, node: str, payload: bytes, last: int) -> None:
        try:
            self._reach().append(node, payload, last)
        except WrongLast as error:
            raise LedgerAway(str(error)) from None

    async def beat(self, nodes: Mapping[str, tuple[int, int]]) -> None:
        if not self.is_away:
            self._reach().beat(list(nodes))
