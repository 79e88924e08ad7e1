"""Governance on the bus: receives requests, judges them in the order of the log, and answers once the outcome is durable."""

from __future__ import annotations

import asyncio
import secrets

from msgspec import structs

from headrace.bus.nats.permissions import CALLOUT_USER, SERVICES
from headrace.bus.process import Service
from headrace.bus.text_encryption import KEYS, Keyring, is_owner
from headrace.bus.variables import API
from headrace.contracts.documents.model import KINDS, Documents
from headrace.contracts.documents.reader import read_documents
from headrace.contracts.documents.tree import DocumentErrors, tree_of
from headrace.contracts.documents.writer import write_document
from headrace.contracts.facts.writers import GOVERNANCE
from headrace.contracts.messages.burst import InstanceTokenRequest
from headrace.contracts.messages.queries import (
    ApplyAnswer,
    ApplyRequest,
    ClaimRequest,
    DeleteRequest,
    DocumentView,
    EraseRequest,
    ForceRequest,
    GetAnswer,
    GetRequest,
    NodeRequest,
    ServiceView,
)
from headrace.contracts.messages.tokens import (
    ApproveNodeRequest,
    RevokeRequest,
    StorageReport,
    TokenAnswer,
    TokenRequest,
    TokensAnswer,
    TokensRequest,
)
from headrace.contracts.transport.codec import MESSAGE_BYTES_MAX, decode, encode
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import ENTROPY_BYTES, make_job_id
from headrace.domain.state.state import State
from headrace.governance.api.serve import ApiHost, GovernanceFunctions
from headrace.governance.approvals import approving
from headrace.governance.calendars import Zones
from headrace.governance.claims import claiming
from headrace.governance.decide import Decision, Governance, Operation, applying, deleting, first_of
from headrace.governance.erasure import erasing, owner_of, pseudonym
from headrace.governance.force_preempt import forcing
from headrace.governance.instances import AUTHOR, token_request
from headrace.governance.level_upgrade import LevelUpgrade
from headrace.governance.missing_keys import MissingKeys
from headrace.governance.node_exclusion import NodeExclusion
from headrace.governance.nodes import confirming_empty, cordoning, draining
from headrace.governance.objects import ObjectName, name_of, names, objects_of
from headrace.governance.storage import reporting
from headrace.governance.storage import trouble as trouble_of_storage
from headrace.governance.time_zones import known_zones, offsets_of
from headrace.governance.tokens import grant_of, granting, revoking, tokens_of
from headrace.governance.validation.diagnostics import unknown
from headrace.identity.caller import Unauthenticated
from headrace.identity.pii import PersonalData
from headrace.identity.signing import IDENTITY, SigningKeys
from headrace.identity.verifier import Verifier
from headrace.service.answering import Handler, Refused, status
from headrace.service.deciding import Deciding
from headrace.service.fold import wall_clock
from headrace.service.hosting import LedgerFollower, Part, Work, ledger_of
from headrace.service.intake import with_intake
from headrace.service.records import records
from headrace.service.snapshots import Snapshots
from headrace.service.task_group import together
from headrace.views.past_queries import PastQueries
from headrace.views.state_at import Past
from headrace.views.visibility import ALL_TENANTS

ANSWER_BYTES_MAX = MESSAGE_BYTES_MAX - 64 * 1024
"""Maximum bytes of an answer's body; the rest is for the envelope."""

LINES_MAX = 2_000
"""Maximum changes, warnings or errors in one answer."""


ZONES = Zones(offsets_of, known_zones)
"""The time zone database of this machine."""


async def prepare(service: Service, follower: LedgerFollower) -> Work:
    keys, texts = SigningKeys(service.data / IDENTITY), Keyring(service.data / KEYS)
    deciding = Deciding(service, follower, GOVERNANCE, lambda state: Governance(state, ZONES))
    state, people = deciding.fold.state, PersonalData(texts)
    deciding.seal = people.sealed
    deciding.fold.listeners.append(people.listener(state))
    people.open_all(state)
    verifier = Verifier.of(service.data, service.environment)
    requests = RequestHandlers(deciding, keys, texts, verifier)
    ledger = ledger_of(service)
    then = PastQueries(Past(ledger, Snapshots.over(service.connection, ledger), erased=state.tokens.erased), ledger, wall_clock)
    upgrade = LevelUpgrade(deciding, requests.decided, (*SERVICES, CALLOUT_USER))
    missing_keys = MissingKeys(deciding, requests.decided, texts, str(service.data / KEYS))
    nodes = NodeExclusion(deciding, requests.decided)

    def told(_tenant: str, _user: str, _payload: bytes) -> ServiceView:
        view = status(service.name, deciding.fold)
        trouble = "; ".join(filter(None, (missing_keys.trouble(), nodes.trouble(), trouble_of_storage(state, requests.report))))
        return structs.replace(view, newest=upgrade.newest, held_back=upgrade.held_back(), trouble=trouble)

    handlers: dict[str, Handler] = {
        **requests.handlers(),
        **then.handlers(ALL_TENANTS),
        "records": records(ledger),
        "status": told,
    }
    address, api = service.environment.get(API), list[ApiHost]()
    if address:
        functions = GovernanceFunctions(requests.decided, keys.sign, texts, verifier)
        api.append(ApiHost(deciding, functions, ZONES, address))

    async def work() -> None:
        served = (one.run() for one in api)
        await together(deciding.run(handlers), upgrade.run(), missing_keys.run(), nodes.run(), *served)

    return work


PART = with_intake(Part(prepare))


class RequestHandlers:
    """Handlers of the bus, which hand operations to the decider. A request waits until the ledger has been read to its tip."""

    def __init__(self, deciding: Deciding, keys: SigningKeys, texts: Keyring, verifier: Verifier) -> None:
        decider = deciding.decider
        if not isinstance(decider, Governance):
            raise TypeError("the handlers pass operations to governance only")
        self._deciding = deciding
        self._keys = keys
        self._texts = texts
        self._verifier = verifier
        self._governance = decider
        self.report: StorageReport | None = None

    def handlers(self) -> dict[str, Handler]:
        """Handlers by request, except `status`."""
        return {
            "apply": self.apply,
            "delete": self.delete,
            "get": self.get,
            "cordon": self.cordon,
            "uncordon": self.uncordon,
            "drain": self.drain,
            "confirm-empty": self.confirm_empty,
            "approve": self.approve,
            "preempt": self.preempt,
            "erase": self.erase,
            "token-create": self.create_token,
            "instance-token": self.create_instance_token,
            "token-revoke": self.revoke_token,
            "tokens": self.tokens,
            "claim": self.claim,
            "storage": self.storage,
        }

    async def apply(self, tenant: str, user: str, payload: bytes) -> ApplyAnswer:
        """Apply documents, all or none (R9)."""
        author, request = _administrator(tenant, user), decode(payload, ApplyRequest)
        try:
            documents = await asyncio.to_thread(
                _read, request.documents
            )  # a large set takes seconds, during which others are served
        except DocumentErrors as wrong:
            errors = tuple(map(str, wrong.errors))
            raise Refused("INVALID", first_of(errors), fitting(ApplyAnswer(changes=(), errors=errors))) from None
        return await self.decided(
            applying(
                documents,
                author,
                zones=self._governance.zones,
                reason=request.reason,
                revisions=request.revisions,
                dry_run=request.dry_run,
                vouches=True,  # only administrators may ask on the bus
            )
        )

    async def delete(self, tenant: str, user: str, payload: bytes) -> ApplyAnswer:
        """Delete an object (R11)."""
        return await self.decided(deleting(decode(payload, DeleteRequest), _administrator(tenant, user)))

    async def cordon(self, tenant: str, user: str, payload: bytes) -> ApplyAnswer:
        """Cordon a node: it takes no new work."""
        return await self.decided(cordoning(decode(payload, NodeRequest), _administrator(tenant, user), cordon=True))

    async def uncordon(self, tenant: str, user: str, payload: bytes) -> ApplyAnswer:
        """Uncordon a node: it takes new work again."""
        return await self.decided(cordoning(decode(payload, NodeRequest), _administrator(tenant, user), cordon=False))

    async def drain(self, tenant: str, user: str, payload: bytes) -> ApplyAnswer:
        """Drain a node: it takes no new work, and its jobs leave."""
        return await self.decided(draining(decode(payload, NodeRequest), _administrator(tenant, user)))

    async def confirm_empty(self, tenant: str, user: str, payload: bytes) -> ApplyAnswer:
        """Confirm that a node's overdue leases have ended."""
        return await self.decided(confirming_empty(decode(payload, NodeRequest), _administrator(tenant, user)))

    async def approve(self, tenant: str, user: str, payload: bytes) -> ApplyAnswer:
        """Approve a node's claims."""
        return await self.decided(approving(decode(payload, ApproveNodeRequest), _administrator(tenant, user)))

    async def preempt(self, tenant: str, user: str, payload: bytes) -> ApplyAnswer:
        """Preempt a job by force (R24)."""
        return await self.decided(forcing(decode(payload, ForceRequest), _administrator(tenant, user)))

    async def erase(self, tenant: str, user: str, payload: bytes) -> ApplyAnswer:
        """Make a tenant's texts, or a person, unreadable for ever: state it first, then delete the key."""
        request, called = decode(payload, EraseRequest), pseudonym(secrets.token_hex(4))
        owner = owner_of(request)
        has_key = is_owner(owner) and await asyncio.to_thread(self._texts.has, owner)
        answer = await self.decided(erasing(request, _administrator(tenant, user), called, has_key=has_key))
        await asyncio.to_thread(self._texts.destroy, owner)
        return answer

    async def create_token(self, tenant: str, user: str, payload: bytes) -> TokenAnswer:
        """Create a token: stated first, signed once that is durable, returned once."""
        return await self._make_token(decode(payload, TokenRequest), _administrator(tenant, user))

    async def create_instance_token(self, _tenant: str, _user: str, payload: bytes) -> TokenAnswer:
        """Create the node's token of an instance that was ordered."""
        await self._deciding.caught_up.wait()
        instance = decode(payload, InstanceTokenRequest).instance
        request = token_request(self._governance.state, instance)
        if request is None:
            raise Refused("NOT_FOUND", f"no instance {instance[:80]!r} is to join")
        return await self._make_token(request, AUTHOR)

    async def _make_token(self, request: TokenRequest, author: str) -> TokenAnswer:
        now = wall_clock()
        grant = grant_of(request, make_job_id(now // 1_000, secrets.token_bytes(ENTROPY_BYTES)), now)
        if isinstance(grant, str):
            raise Refused("INVALID", grant)
        alone = self._verifier.alone
        await self.decided(granting(grant, author, request.reason, by_provider=True, alone=alone, claims=request.claims))
        token = await asyncio.to_thread(self._keys.sign, grant)
        return TokenAnswer(token=token, id=grant.id, expires_at=grant.expires_at * SECOND)

    async def revoke_token(self, tenant: str, user: str, payload: bytes) -> ApplyAnswer:
        """Revoke a token, or all tokens of a bearer."""
        return await self.decided(revoking(decode(payload, RevokeRequest), _administrator(tenant, user)))

    async def tokens(self, tenant: str, user: str, payload: bytes) -> TokensAnswer:
        """The tokens, without their secret texts, which are not stored."""
        _administrator(tenant, user)
        request = decode(payload, TokensRequest)
        await self._deciding.caught_up.wait()
        return tokens_of(self._governance.state, request)

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

    async def get(self, tenant: str, user: str, payload: bytes) -> GetAnswer:
        """Documents in force, with the revision that a change is to be based on."""
        _administrator(tenant, user)
        request = decode(payload, GetRequest)
        await self._deciding.caught_up.wait()
        answer = find(self._governance.state, request)
        if len(encode(answer)) > ANSWER_BYTES_MAX:
            raise Refused("REFUSED", f"{len(answer.documents)} documents are too many for one answer: ask for one by name")
        return answer

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
        answer = fitting(decision.answer)
        if decision.code:
            raise Refused(decision.code, decision.error, answer)
        return answer


def _read(written: dict[str, object]) -> Documents:
    return read_documents(tree_of(written))


def _administrator(tenant: str, user: str) -> str:
    """The author as facts name them: an administrator of the installation, because only those may ask this service."""
    return f"{tenant}.{user}"


def fitting(answer: ApplyAnswer) -> ApplyAnswer:
    """The answer cut to the size of a message: the first of many lines, and of the changes those that change something."""
    changes = answer.changes
    if len(changes) > LINES_MAX:
        changes = tuple(change for change in changes if change.action != "keep")[:LINES_MAX]
    cut = structs.replace(answer, changes=changes, warnings=_first(answer.warnings), errors=_first(answer.errors))
    if len(encode(cut)) <= ANSWER_BYTES_MAX:
        return cut
    return structs.replace(cut, changes=tuple(structs.replace(change, fields=()) for change in changes))


def _first(lines: tuple[str, ...]) -> tuple[str, ...]:
    return lines if len(lines) <= LINES_MAX else (*lines[:LINES_MAX], f"and {len(lines) - LINES_MAX} more")


def _closed(state: State, name: ObjectName) -> str:
    closing = state.terms.closings.get((name.kind, name.tenant, name.name))
    return "" if closing is None else closing.mode


def find(state: State, request: GetRequest) -> GetAnswer:
    """The documents of a kind, or those of one name (`acme/ai-dev`, or `ai-dev` in any tenant), sorted by name."""
    if request.kind not in KINDS:
        raise Refused("INVALID", f"kind: {unknown('kind', request.kind, KINDS)}")
    found = [
        DocumentView(
            kind=request.kind,
            name=name.full,
            revision=written.revision,
            document=write_document(written.document),
            closed=_closed(state, name),
        )
        for written in objects_of(state, request.kind).values()
        for name in (name_of(written.document),)
        if request.name in ("", name.full, name.name)
    ]
    if request.name and not found:
        known = (name.full for name in names(state, request.kind))
        raise Refused("NOT_FOUND", unknown(request.kind, request.name, known))
    return GetAnswer(documents=tuple(sorted(found, key=lambda view: view.name)))
