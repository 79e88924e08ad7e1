"""Governance on the bus: receives requests, judges them in the order of the log, and answers once the outcome is durable."""

from __future__ import annotations

import asyncio
import re
import secrets
from hashlib import blake2b

from msgspec import structs

from headrace.bus.nats.permissions import CALLOUT_USER, SERVICES
from headrace.bus.process import Service
from headrace.bus.text_encryption import KEYS, Keyring
from headrace.bus.variables import API
from headrace.contracts.facts.writers import GOVERNANCE
from headrace.contracts.messages.burst import InstanceTokenRequest, JoinRequest
from headrace.contracts.messages.queries import (
    ApplyAnswer,
    ClaimRequest,
    ServiceView,
)
from headrace.contracts.messages.tokens import (
    Grant,
    StorageReport,
    TokenAnswer,
    TokenRequest,
)
from headrace.contracts.transport.codec import decode
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import ENTROPY_BYTES, make_job_id
from headrace.governance.api.serve import ApiHost, GovernanceFunctions
from headrace.governance.calendars import TimeZones
from headrace.governance.claims import claiming
from headrace.governance.decide import Decision, Governance, Operation
from headrace.governance.instances import AUTHOR, code_of, code_request, stated_grant, token_request
from headrace.governance.joining import exchanging
from headrace.governance.level_upgrade import LevelUpgrade
from headrace.governance.missing_keys import MissingKeys
from headrace.governance.node_exclusion import NodeExclusion
from headrace.governance.storage import reporting
from headrace.governance.storage import trouble as trouble_of_storage
from headrace.governance.time_zones import known_zones, offsets_of
from headrace.governance.tokens import grant_of, granting
from headrace.identity.caller import Role, Unauthenticated
from headrace.identity.pii import PersonalData
from headrace.identity.signing import IDENTITY, SigningKeys
from headrace.identity.verifier import Verifier
from headrace.service.answering import Handler, Refused, status
from headrace.service.deciding import Deciding
from headrace.service.fold import wall_clock
from headrace.service.hosting import LedgerFollower, Part, Work
from headrace.service.intake import with_intake
from headrace.service.task_group import run_until_first_ends

NONCE = re.compile("[0-9a-f]{32,128}")
ZONES = TimeZones(offsets_of, known_zones)
"""The time zone database of this machine."""


async def prepare(service: Service, follower: LedgerFollower) -> Work:
    keys, texts = SigningKeys(service.data / IDENTITY), Keyring(service.data / KEYS)
    deciding = Deciding(service, follower, GOVERNANCE, lambda state: Governance(state, ZONES))
    state, people = deciding.fold.state, PersonalData(texts)
    deciding.seal = people.sealed
    deciding.fold.listeners.append(people.listener(state))
    people.open_all(state)
    verifier = Verifier.of(service.data, service.environment)
    requests = RequestHandlers(deciding, keys, verifier)
    upgrade = LevelUpgrade(deciding, requests.decided, (*SERVICES, CALLOUT_USER))
    missing_keys = MissingKeys(deciding, requests.decided, texts, str(service.data / KEYS))
    nodes = NodeExclusion(deciding, requests.decided)

    def service_view(_tenant: str, _user: str, _payload: bytes) -> ServiceView:
        view = status(service.name, deciding.fold)
        trouble = "; ".join(filter(None, (missing_keys.trouble(), nodes.trouble(), trouble_of_storage(state, requests.report))))
        return structs.replace(view, newest=upgrade.newest, held_back=upgrade.held_back(), trouble=trouble)

    address, api = service.environment.get(API), list[ApiHost]()
    if address:
        functions = GovernanceFunctions(requests.decided, keys.sign, texts, verifier)
        api.append(ApiHost(deciding, functions, ZONES, address))

    async def work() -> None:
        served = (one.run() for one in api)
        handlers = requests.handlers() | {"status": service_view}
        await run_until_first_ends(deciding.run(handlers), upgrade.run(), missing_keys.run(), nodes.run(), *served)

    return work


PART = with_intake(Part(prepare))


class RequestHandlers:
    """Handlers of requests of other services, and the way of all operations to the decider, once the ledger has been read to its tip."""

    def __init__(self, deciding: Deciding, keys: SigningKeys, verifier: Verifier) -> None:
        decider = deciding.decider
        if not isinstance(decider, Governance):
            raise TypeError("the handlers pass operations to governance only")
        self._deciding = deciding
        self._keys = keys
        self._verifier = verifier
        self._governance = decider
        self.report: StorageReport | None = None

    def handlers(self) -> dict[str, Handler]:
        """Handlers by request, except `status`."""
        return {"instance-token": self.create_instance_token, "join": self.join, "claim": self.claim, "storage": self.storage}

    async def create_instance_token(self, _tenant: str, _user: str, payload: bytes) -> TokenAnswer:
        """The one-time code of an instance that was ordered: made once, and the same one from then on."""
        await self._deciding.caught_up.wait()
        instance, state = decode(payload, InstanceTokenRequest).instance, self._governance.state
        request = code_request(state, instance, wall_clock())
        if request is not None and code_of(state, instance, wall_clock()) is None:
            grant = self._grant(request, make_job_id(wall_clock() // 1_000, secrets.token_bytes(ENTROPY_BYTES)))
            await self.decided(granting(grant, AUTHOR, request.reason, by_provider=True, alone=self._verifier.alone))
        code = code_of(state, instance, wall_clock())
        if request is None or code is None:
            raise Refused("NOT_FOUND", f"no instance {instance[:80]!r} is to join")
        return await self._signed(code)

    async def join(self, _tenant: str, user: str, payload: bytes) -> TokenAnswer:
        """Exchange the code of an instance for the token of its node. The code is verified here; its sender is not trusted."""
        await self._deciding.caught_up.wait()
        asked, state = decode(payload, JoinRequest), self._governance.state
        if not NONCE.fullmatch(asked.nonce):
            raise Refused("INVALID", "nonce: write 32 to 128 hexadecimal digits")
        try:
            caller = await self._verifier.caller(state, asked.code)
        except Unauthenticated as error:
            raise Refused("NOT_ALLOWED", str(error)) from None
        request = token_request(state, caller.handle)
        if caller.role is not Role.INSTANCE or caller.handle != user or request is None:
            raise Refused("NOT_ALLOWED", "the code is not one of this instance, or the instance is not to join any more")
        entropy = blake2b(f"{caller.token} {asked.nonce}".encode(), digest_size=ENTROPY_BYTES).digest()
        grant = self._grant(request, make_job_id(state.tokens.known[caller.token].created_at // 1_000, entropy))
        alone, claims = self._verifier.alone, request.claims
        grants = granting(grant, AUTHOR, request.reason, by_provider=True, alone=alone, claims=claims)
        await self.decided(exchanging(caller.token, grant, grants))
        return await self._signed(stated_grant(grant.id, state.tokens.known[grant.id]))

    @staticmethod
    def _grant(request: TokenRequest, name: str) -> Grant:
        grant = grant_of(request, name, wall_clock())
        if isinstance(grant, str):
            raise Refused("INVALID", grant)
        return grant

    async def _signed(self, grant: Grant) -> TokenAnswer:
        token = await asyncio.to_thread(self._keys.sign, grant)
        return TokenAnswer(token=token, id=grant.id, expires_at=grant.expires_at * SECOND)

    async def claim(self, _tenant: str, _user: str, payload: bytes) -> ApplyAnswer:
        """State the groups in a provider's token. The token is verified here; its sender is not trusted."""
        await self._deciding.caught_up.wait()
        try:
            caller = await self._verifier.caller(self._governance.state, decode(payload, ClaimRequest).token)
        except Unauthenticated as error:
            raise Refused("NOT_ALLOWED", str(error)) from None
        return await self.decided(claiming(caller))

    async def storage(self, _tenant: str, _user: str, payload: bytes) -> ApplyAnswer:
        """Take callout's report of the servers' storage."""
        self.report = decode(payload, StorageReport)
        return await self.decided(reporting(self.report))

    async def decided(self, operation: Operation) -> ApplyAnswer:
        """Answer to an operation once it is durable. Raises Refused."""
        await self._deciding.caught_up.wait()
        waiting: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()

        def answered(outcome: Decision | Exception) -> None:
            if waiting.done():  # the caller is gone
                return
            if isinstance(outcome, Exception):
                waiting.set_exception(outcome)
            else:
                waiting.set_result(outcome)

        self._governance.ask(operation, answered)
        self._deciding.wake()
        decision = await waiting
        if decision.code:
            raise Refused(decision.code, decision.error, decision.answer)
        return decision.answer
