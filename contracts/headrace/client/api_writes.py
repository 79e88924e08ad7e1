"""What a client asks to change over the API: documents, nodes, jobs, tokens, erasures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from headrace.client import answers
from headrace.client.api import part, violations
from headrace.client.errors import Refused
from headrace.client.questions import Questions
from headrace.contracts.messages.queries import (
    ApplyAnswer,
    ApplyRequest,
    Change,
    DeleteRequest,
    EraseRequest,
    ForceRequest,
    NodeRequest,
)
from headrace.contracts.messages.tokens import (
    ApproveNodeRequest,
    NodeClaims,
    RevokeRequest,
    TokenAnswer,
    TokenRequest,
    TokenRole,
    TokensAnswer,
)
from headrace.contracts.messages.trials import TrialAnswer, Verdict
from headrace.contracts.transport.encoding import encode
from headrace.contracts.values.durations import SECOND, format_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.contracts.messages.submissions import JobSubmission

TENANTS_OWN = frozenset({TokenRole.USER, TokenRole.SERVICE_ACCOUNT})
_MORE = re.compile(r"\(and ([0-9]+) more\)$")
VERBS = {"confirm-empty": "confirmEmpty"}
"""Verbs that are written otherwise in paths."""


class Writes(Questions):
    """The changes of a client; see `client.Client`."""

    async def apply(self, request: ApplyRequest) -> ApplyAnswer:
        """Put documents in force, all or none (R9)."""
        body = {
            "documents": request.documents,
            "dry_run": request.dry_run,
            "reason": request.reason,
            "revisions": {key: str(revision) for key, revision in request.revisions.items()},
        }
        try:
            return answers.plan(await self.called.post("/v1/documents:apply", body))
        except Refused as refusal:
            changes: tuple[Change, ...] = ()
            if refusal.code == "STALE" and not request.dry_run:
                changes = (await self.apply(ApplyRequest(documents=request.documents, dry_run=True))).changes
            plan = ApplyAnswer(changes=changes, errors=_lines_of(refusal))
            raise Refused(refusal.code, str(refusal), encode(plan), retry_after=refusal.retry_after) from None

    async def delete(self, request: DeleteRequest) -> ApplyAnswer:
        """Delete an object, or close it by a mode (R11)."""
        body = {
            "kind": request.kind,
            "name": request.name,
            "tenant": request.tenant,
            "mode": request.mode.upper() or "DELETE_MODE_UNSPECIFIED",
            "reason": request.reason,
            "etag": str(request.revision or ""),
        }
        return answers.plan(await self.called.post("/v1/documents:delete", body))

    async def node_order(self, verb: str, request: NodeRequest) -> ApplyAnswer:
        """`cordon`, `uncordon`, `drain`, `confirm-empty` or `remove` of a node."""
        path = f"/v1/nodes/{part(request.node)}:{VERBS.get(verb, verb)}"
        body = {"reason": request.reason} | ({"begin_time": format_time(request.begins)} if request.begins else {})
        return answers.plan(await self.called.post(path, body))

    async def end_instance(self, instance: str) -> ApplyAnswer:
        """End an instance of a pool that creates its nodes."""
        return answers.plan(await self.called.post(f"/v1/instances/{part(instance)}:end", {}))

    async def approve(self, request: ApproveNodeRequest) -> ApplyAnswer:
        """Approve what a node states about itself; without claims all that it states now."""
        body: dict[str, object] = {"reason": request.reason}
        if request.claims != NodeClaims():
            body["claims"] = _claims(request.claims)
        return answers.plan(await self.called.post(f"/v1/nodes/{part(request.node)}:approve", body))

    async def preempt(self, request: ForceRequest) -> ApplyAnswer:
        """Preempt a job by force (R24)."""
        body = {"force": request.force, "reason": request.reason}
        return answers.plan(await self.called.post(f"{self.job_path(request.job)}:preempt", body))

    async def erase(self, request: EraseRequest) -> ApplyAnswer:
        """Make the texts of a tenant's jobs, or a person, unreadable for ever."""
        user = f"/users/{part(request.user)}" if request.user else ""
        body = {"force": True, "reason": request.reason}
        return answers.plan(await self.called.post(f"/v1/tenants/{part(request.tenant)}{user}:erase", body))

    async def tokens(self, tenant: str = "") -> TokensAnswer:
        """The tokens that have not expired, newest first; of one tenant or of all."""
        parent = f"/v1/tenants/{part(tenant)}/tokens" if tenant else "/v1/tokens"
        found = map(answers.token, await self._list(parent, "tokens"))
        return TokensAnswer(tokens=tuple(sorted(found, key=lambda one: one.id, reverse=True)))

    async def create_token(self, request: TokenRequest) -> TokenAnswer:
        """Issue a token; its text is in this answer only."""
        tenant = request.tenant or "default"
        parent = f"/v1/tenants/{part(tenant)}/tokens" if request.role in TENANTS_OWN else "/v1/tokens"
        body: dict[str, object] = {
            "role": request.role,
            "handle": request.handle,
            "lifetime": f"{request.lifetime // SECOND}s" if request.lifetime else "",
        }
        if request.claims is not None:
            body["claims"] = _claims(request.claims)
        reason = f"?reason={part(request.reason)}" if request.reason else ""
        answer = await self.called.post(parent + reason, body)
        view = answers.token(answer)
        return TokenAnswer(token=answer["bearer"], id=view.id, expires_at=view.expires_at)

    async def login_link(self, server: str, lifetime: int) -> str:
        """A link to the page at `server` that logs a browser in once.

        The browser gets this client's token; in place of the owner's login, which counts at the local socket only, it gets a new token of
        an administrator for `lifetime` microseconds.
        """
        token = self.called.target.token
        if self.called.target.socket:
            request = TokenRequest(role=TokenRole.ADMIN, handle=self.user, lifetime=lifetime, reason="headrace page")
            token = (await self.create_token(request)).token
        code = (await self.called.post("/v1/login:code", {"token": token}))["code"]
        return f"{server.rstrip('/')}/page#code={code}"

    async def revoke(self, request: RevokeRequest) -> ApplyAnswer:
        """Revoke one token, or all tokens of a bearer; a bearer without a tenant is a node."""
        body: dict[str, object] = {"reason": request.reason}
        if request.token:
            path = f"/v1/tokens/{part(request.token)}:revoke"
        else:
            parent = f"/v1/tenants/{part(request.tenant)}/tokens" if request.tenant else "/v1/tokens"
            path, body["handle"] = f"{parent}:revoke", request.handle
        try:
            return answers.plan(await self.called.post(path, body))
        except Refused as refusal:
            if not (request.token and refusal.code == "NOT_ALLOWED"):
                raise
        # for the administrator of a tenant the token is one of the tenant's
        return answers.plan(await self.called.post(f"{self._parent}/tokens/{part(request.token)}:revoke", body))

    async def submit_over_api(self, queue: str, submissions: Sequence[JobSubmission]) -> None:
        """Submit jobs of one owner to a queue; returns once they are durable."""
        await self.called.post(f"{self._parent}/jobs:submit", self._submit_body(queue, submissions))

    async def judge(self, queue: str, submissions: Sequence[JobSubmission]) -> TrialAnswer:
        """What would become of jobs of one owner, up to 1,000, and what nodes would cost that are created for them."""
        body = self._submit_body(queue, submissions) | {"validate_only": True}
        answer = await self.called.post(f"{self._parent}/jobs:submit", body)
        verdicts = (
            Verdict(job=one.get("id", ""), reason=one.get("reason", ""), message=one.get("message", ""))
            for one in answer.get("jobs", ())
        )
        return TrialAnswer(verdicts=tuple(verdicts), costs=tuple(answer.get("costs", ())))

    def _submit_body(self, queue: str, submissions: Sequence[JobSubmission]) -> dict[str, object]:
        jobs = [msgspec.to_builtins(submission) for submission in submissions]
        owner = submissions[0].on_behalf_of
        for job in jobs:
            job.pop("on_behalf_of", None)
        return {"queue": queue, "jobs": jobs, "user": owner or self.user}

    async def cancel_over_api(self, tenant: str, names: Sequence[str], reason: str) -> None:
        """Ask to end jobs of a tenant; `names`: their names in the API."""
        await self.called.post(f"/v1/tenants/{part(tenant)}/jobs:cancel", {"jobs": list(names), "reason": reason})

    async def cancel_part_over_api(self, array: str, elements: str, reason: str) -> None:
        """Ask to end elements of an array."""
        await self.called.post(f"{self.job_path(array)}:cancel", {"reason": reason, "elements": elements})

    async def requeue_over_api(self, job: str, reason: str, elements: str = "") -> None:
        """Ask that a job, or elements of an array, wait again (R29)."""
        await self.called.post(
            f"{self.job_path(job)}:requeue", {"reason": reason} | ({"elements": elements} if elements else {})
        )


def _lines_of(refusal: Refused) -> tuple[str, ...]:
    """Everything that is wrong with a set of documents, one line each."""
    found = [(field.removeprefix("documents."), text) for field, text in violations(refusal)]
    lines = [f"{field}: {text}" if field else text for field, text in found] or [str(refusal)]
    more = _MORE.search(str(refusal))
    left = int(more[1]) + 1 - len(lines) if more is not None else 0
    return (*lines, f"and {left} more") if left > 0 else tuple(lines)


def _claims(claims: NodeClaims) -> dict[str, object]:
    return {field: value for field, value in msgspec.structs.asdict(claims).items() if value is not None}
