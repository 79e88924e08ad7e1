"""The bridge's ways into Headrace: a connection to NATS for each node, with the node's token, and the API, with the token of each account.

Tokens are files of two directories: one named as each node, one named as each namespace. They are read again when they change, so that a
renewed Secret takes effect. The bridge has no other rights than these tokens give.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import structlog
from nats import errors

from headrace.client.api import Api, ApiTarget
from headrace.client.api_writes import Writes
from headrace.client.errors import HeadraceError, Refused
from headrace.contracts.messages.orders import Heartbeat, NodeAnswer
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import Malformed, decode, encode
from headrace.contracts.values.ids import is_token, job_key, split_job_key
from headrace.kubernetes.acting import LedgerAway
from headrace.kubernetes.identity import CLUSTER
from headrace.kubernetes.matching import ENDED
from headrace.nats_client.append import append
from headrace.nats_client.connection import Address, Connection
from headrace.nats_client.errors import LogError

if TYPE_CHECKING:
    from headrace.contracts.messages.queries import JobView
    from headrace.contracts.messages.submissions import JobSubmission

LIVING = ("pending", "running", "preempting", "stopping", "suspended")
CONNECT_WITHIN = 5.0
CLOSE_WITHIN = 2.0

_log = structlog.get_logger("headrace.kubernetes")


class Place(NamedTuple):
    """Where Headrace is. `nats` and `api`: addresses; `ca`: file of the trusted authority; directories of tokens."""

    nats: str
    api: str
    ca: str
    nodes: Path
    accounts: Path


class Account(Writes):
    """A service account at the API."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.tenant = self.user = ""

    @property
    def name(self) -> str:
        """The account as `tenant.user`, the beginning of the keys of its jobs."""
        return f"{self.tenant}.{self.user}"


class LedgerAccess:
    """All connections. `on_orders`: called when a node gets orders. `clock`: microseconds."""

    def __init__(self, place: Place, on_orders: Callable[[], None], clock: Callable[[], int]) -> None:
        self._place = place
        self._on_orders = on_orders
        self._clock = clock
        self._nodes: dict[str, tuple[str, Connection]] = {}
        self._accounts: dict[str, tuple[str, Account]] = {}
        self._ended: dict[str, JobView] = {}
        self.trouble: dict[str, str] = {}
        """By node or namespace what does not answer."""

    async def close(self) -> None:
        """End all connections, to NATS and to the API."""
        for name in tuple(self._nodes):
            await self._drop(name)
        for _, account in self._accounts.values():
            await account.called.close()

    # what is asked

    async def answers(self, wanted: Iterable[str]) -> dict[str, NodeAnswer]:
        """What should run on nodes, by node; those without a token or an answer are missing."""
        tokens = await asyncio.to_thread(tokens_in, self._place.nodes)
        for name in tuple(self._nodes):
            if tokens.get(name) != self._nodes[name][0] or self._nodes[name][1].closed_for_good.is_set():
                await self._drop(name)
        names = [name for name in wanted if name in tokens]
        found = await asyncio.gather(*(self._answer(name, tokens[name]) for name in names))
        return {name: answer for name, answer in zip(names, found, strict=True) if answer is not None}

    async def _answer(self, name: str, token: str) -> NodeAnswer | None:
        try:
            connection = await self._open(name, token)
            answer = decode((await connection.ask(subjects.node_query(name))).data, NodeAnswer)
        except (LogError, Malformed, OSError, TimeoutError, errors.Error) as error:
            self._away(f"node {name}", str(error) or type(error).__name__)
            return None
        self.trouble.pop(f"node {name}", None)
        return answer if answer.node == name else None

    async def _open(self, name: str, token: str) -> Connection:
        if name not in self._nodes:
            connection = Connection()
            address = Address(self._place.nats, f"node_{name}", token, self._place.ca)
            async with asyncio.timeout(CONNECT_WITHIN):
                await connection.open(address, f"kubernetes node {name}")
            await connection.listen(subjects.orders(name), lambda _message: self._on_orders())
            self._nodes[name] = token, connection
        return self._nodes[name][1]

    async def _drop(self, name: str) -> None:
        _, connection = self._nodes.pop(name)
        with contextlib.suppress(errors.Error, TimeoutError, OSError):
            await asyncio.wait_for(connection.close(), CLOSE_WITHIN)

    async def accounts(self) -> dict[str, str]:
        """By namespace the account `tenant.user`; those that the API has not confirmed are missing."""
        tokens = await asyncio.to_thread(tokens_in, self._place.accounts)
        for namespace, (token, account) in tuple(self._accounts.items()):
            if tokens.get(namespace) != token:
                del self._accounts[namespace]
                await account.called.close()
        for namespace, token in tokens.items():
            if namespace not in self._accounts:
                await self._enter(namespace, token)
        return {namespace: account.name for namespace, (_, account) in self._accounts.items()}

    async def _enter(self, namespace: str, token: str) -> None:
        account = Account(Api(ApiTarget(server=self._place.api, token=token, ca=self._place.ca)))
        try:
            await account.identify()
        except HeadraceError as error:
            self._away(f"namespace {namespace}", str(error))
            await account.called.close()
            return
        self.trouble.pop(f"namespace {namespace}", None)
        self._accounts[namespace] = token, account

    async def jobs(
        self, cluster: str, labelled: Mapping[str, Iterable[str]]
    ) -> tuple[dict[str, JobView | None], frozenset[str]]:
        """Jobs of the bridge that have not ended, and those that pods name (ids by namespace); and accounts that listed all of theirs."""
        found: dict[str, JobView | None] = {}
        listed: set[str] = set()
        for namespace, (_, account) in self._accounts.items():
            try:
                for job in await account.jobs(states=LIVING, user=account.user, labels={CLUSTER: cluster}, limit=100_000):
                    found[job.job] = job
                listed.add(account.name)
                for job_id in labelled.get(namespace, ()):
                    key = job_key(account.tenant, account.user, job_id)
                    if key not in found:
                        found[key] = await self._job(account, key)
                self.trouble.pop(f"namespace {namespace}", None)
            except HeadraceError as error:
                self._away(f"namespace {namespace}", str(error))
        return found, frozenset(listed)

    async def _job(self, account: Account, key: str) -> JobView | None:
        if key in self._ended:  # what has ended stays as it is
            return self._ended[key]
        try:
            job = await account.job_of(key)
        except Refused as error:
            if error.code == "NOT_FOUND":
                return None
            raise
        if job.state in ENDED:
            self._ended[key] = job
        return job

    def forget(self, keys: Iterable[str]) -> None:
        """Keep of ended jobs only these."""
        kept = set(keys)
        self._ended = {key: job for key, job in self._ended.items() if key in kept}

    # what is written: `acting.Ledger`

    async def submit(self, namespace: str, queue: str, submission: JobSubmission) -> None:
        """Submit a job for the account of a namespace; the same again is the same job."""
        account = self._account(namespace)
        try:
            await account.submit_over_api(queue, [submission])
        except HeadraceError as error:
            raise LedgerAway(str(error)) from None

    async def cancel(self, namespace: str, job: str, reason: str) -> None:
        """Ask that a job ends."""
        account = self._account(namespace)
        tenant, _, _ = split_job_key(job)
        try:
            await account.cancel_over_api(tenant, [account.job_path(job).removeprefix("/v1/")], reason)
        except HeadraceError as error:
            raise LedgerAway(str(error)) from None

    def _account(self, namespace: str) -> Account:
        if namespace not in self._accounts:
            raise LedgerAway(f"namespace {namespace} has no account now")
        return self._accounts[namespace][1]

    async def append(self, node: str, payload: bytes, last: int) -> None:
        """Store a record of a node behind its last one, whose sequence is `last`."""
        if node not in self._nodes:
            raise LedgerAway(f"node {node} is not connected")
        try:
            await append(self._nodes[node][1], subjects.ledger(subjects.node_writer(node)), payload, last)
        except LogError as error:
            raise LedgerAway(str(error)) from None

    async def beat(self, nodes: Mapping[str, tuple[int, int]]) -> None:
        """Say that nodes live; by node the number of its leases, and the sequence of its last record."""
        for node, (running, last) in nodes.items():
            if node in self._nodes:
                beat = Heartbeat(node=node, at=self._clock(), running=running, last_record=last)
                with contextlib.suppress(errors.Error):
                    await self._nodes[node][1].publish(subjects.telemetry(node, "heartbeat"), encode(beat))

    def _away(self, what: str, why: str) -> None:
        if self.trouble.get(what) != why:
            _log.warning("headrace_away", what=what, reason=why)
        self.trouble[what] = why


def tokens_in(directory: Path) -> dict[str, str]:
    """The tokens in a directory, by the names of the files; names that cannot be nodes or namespaces are left out."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for path in sorted(directory.iterdir()):
            if is_token(path.name) and path.is_file():
                with contextlib.suppress(OSError, UnicodeDecodeError):
                    if token := path.read_text("ascii").strip():
                        found[path.name] = token
    return found
