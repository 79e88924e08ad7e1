"""What a client asks: jobs, queues, pools, nodes, documents, books, history. One method for each question, over the API."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.client import answers, burst_answers, node_answers
from headrace.client.api import Api, part
from headrace.client.errors import Refused, Unreachable
from headrace.contracts.messages.queries import GetAnswer, LogsAnswer, RecordsAnswer, StoredRecord
from headrace.contracts.values.durations import SECOND, format_duration
from headrace.contracts.values.ids import IdError, is_job_id, split_job_key

if TYPE_CHECKING:
    from headrace.client.feed import FeedFact
    from headrace.client.utilization import Utilization
    from headrace.contracts.messages.audit import AuditAnswer, AuditRequest
    from headrace.contracts.messages.burst import CheckAnswer, InstanceView, OfferView, PlanAnswer
    from headrace.contracts.messages.explanation import WhyView
    from headrace.contracts.messages.history import DiffRequest, DiffView, LedgerPoint, PastView
    from headrace.contracts.messages.installation import InstallationView
    from headrace.contracts.messages.queries import FactView, JobView, NodeView, PoolView, QueueView
    from headrace.contracts.messages.usage import StatementRequest, UsageAnswer, UsageRequest
    from headrace.contracts.messages.whatif import Difference

PAGE = 1_000
STATUS_WITHIN = 5.0
LONG = 130.0
"""Timeout in seconds of questions about the past and about the books."""
WHATIF_WITHIN = 620.0
"""Timeout in seconds of a what-if; the API itself ends it after 600."""


class Questions:
    """The questions of a client; see `client.Client`."""

    tenant: str
    user: str
    api: Api | None
    without_api: str

    @property
    def called(self) -> Api:
        """The API. Raises Unreachable if its address is unknown."""
        if self.api is None:
            raise Unreachable(self.without_api)
        return self.api

    async def job_of(self, name: str, digest: str = "") -> JobView:
        """One job with all its attempts, by its id or key."""
        return answers.job(await self.called.get(self.job_path(name), {"digest": digest}))

    async def jobs(
        self,
        *,
        states: Sequence[str] = (),
        queue: str = "",
        user: str = "",
        limit: int = 1_000,
        name: str = "",
        labels: Mapping[str, str] | None = None,
        since: int = 0,
        id_prefix: str = "",
        array: str = "",
    ) -> tuple[JobView, ...]:
        """The tenant's jobs, newest first, at most `limit`; empty arguments do not filter. `name` is a pattern with `*` and `?`.

        `since`: submitted at this time (microseconds since 1970) or later, to the second; `id_prefix`: the beginning of their ids.
        An array is one of them; `array`, the id of one: its elements that have started or ended, the highest index first.
        """
        any_state = " OR ".join(f"state = {_quoted(state)}" for state in states)
        conditions = [f"({any_state})"] if any_state else []
        conditions += [f"{field} = {_quoted(text)}" for field, text in (("queue", queue), ("user", user)) if text]
        if since:
            when = _quoted(moment_text(since - since % SECOND))
            conditions.append(f'(admit_time >= {when} OR state = "rejected" AND end_time >= {when})')
        if id_prefix:
            conditions.append(f"name : {_quoted(f'/jobs/{id_prefix}')}")
        query = {
            "filter": " AND ".join(conditions),
            "name_pattern": name,
            "labels": [f"{key}={value}" for key, value in (labels or {}).items()],
            "array": array,
        }
        found = await self._list(f"{self._parent}/jobs", "jobs", query, limit)
        return tuple(map(answers.job, found))

    async def why(self, job: str, *, sequence: int = 0, at: int = 0) -> WhyView:
        """Why a job waits, or how it ended (R22); optionally as of ledger record `sequence`, or at a time `at` (microseconds)."""
        if sequence < 0 or at < 0:
            raise Refused("INVALID", "sequence, at: neither is less than 0")
        query = {"at_sequence": sequence, "at_time": moment_text(at)}
        return answers.why(await self.called.get(f"{self.job_path(job)}:explain", query, LONG))

    async def facts(self, job: str) -> tuple[FactView, ...]:
        """The facts about a job, one line each."""
        answer = await self.called.get(f"{self.job_path(job)}/facts")
        return tuple(map(answers.fact, answer.get("facts", ())))

    async def logs(self, job: str, *, offset: int = 0, attempt: int = 0, rank: int = 0) -> LogsAnswer:
        """A part of an attempt's output (0: the latest attempt) from `offset` (bytes) on, as stored on its node."""
        query = {"offset": offset, "attempt": attempt, "rank": rank}
        answer = await self.called.get(f"{self.job_path(job)}/logs", query)
        return LogsAnswer(
            data=answer.get("text", ""), next_offset=int(answer.get("next_offset", 0)), ended=answer.get("ended", False)
        )

    async def overview(self, sequence: int = 0) -> dict[str, Any]:
        """The whole installation after a record (0: now), as the API's `Overview`."""
        return await self.called.get("/v1/overview", {"at": str(sequence) if sequence else ""}, LONG)

    def watch_overview(
        self,
        since: int = 0,
        *,
        nouns: Sequence[str] = (),
        tenants: Sequence[str] = (),
        parts: Sequence[str] = (),
        every_event: bool = False,
    ) -> AsyncIterator[dict[str, Any]]:
        """The installation and what happens, as the API's `OverviewChange`; `since`: events after this record.

        `nouns`, `tenants`: only their events, of the overview only what is of these tenants; `parts`: fields of overviews; empty: all.
        `every_event`: none is left out, however many there are.
        """
        query = {"nouns": nouns, "tenants": tenants, "parts": parts, "every_event": every_event}
        return self.called.lines("/v1/overview:watch", {"since": str(since) if since else "", **query})

    def watch_overview_json(self, since: int = 0) -> AsyncGenerator[bytes, None]:
        """As `watch_overview` without a choice, each answer as JSON: of a large installation little of it is decoded by who asks."""
        return self.called.raw_lines("/v1/overview:watch", {"since": str(since) if since else ""})

    async def queues(self) -> tuple[QueueView, ...]:
        """The tenant's queues, and the usage of their policies."""
        return tuple(map(answers.queue, await self._list(f"{self._parent}/queues", "queues")))

    async def pools(self) -> tuple[PoolView, ...]:
        """The pools that the caller sees, and their free amounts."""
        return tuple(map(answers.pool, await self._list("/v1/pools", "pools")))

    async def nodes(self) -> tuple[NodeView, ...]:
        """The nodes that the caller sees."""
        return tuple(map(node_answers.node, await self._list("/v1/nodes", "nodes")))

    async def instances(self) -> tuple[InstanceView, ...]:
        """The instances that live, and those that ended within the last hour."""
        return tuple(map(burst_answers.instance, (await self.called.get("/v1/instances", {})).get("instances", ())))

    async def offers(self) -> tuple[OfferView, ...]:
        """The offers of every pool, in the order in which they are asked."""
        return tuple(map(burst_answers.offer, (await self.called.get("/v1/offers", {})).get("offers", ())))

    async def plan_growth(self, pool: str, nodes: int) -> PlanAnswer:
        """What would be ordered if a pool were asked for nodes now."""
        return burst_answers.growth_plan(await self.called.get(f"/v1/pools/{part(pool)}:planGrowth", {"nodes": nodes}))

    async def check_offers(self, pool: str) -> CheckAnswer:
        """What the provider of a pool says of its offers; nothing is made."""
        return burst_answers.offer_checks(await self.called.get(f"/v1/pools/{part(pool)}:checkOffers", {}))

    async def documents(self, kind: str, name: str = "") -> GetAnswer:
        """Documents of a kind in force, or those of one name."""
        answer = await self.called.get("/v1/documents", {"kind": kind, "name": name})
        return GetAnswer(documents=tuple(map(answers.document, answer.get("documents", ()))))

    async def usage(self, request: UsageRequest, *, all_tenants: bool = False) -> AsyncIterator[UsageAnswer]:
        """The books, page by page; later pages are as of the time of the first."""
        from headrace.client import past_answers  # noqa: PLC0415 - what only some questions need takes time to import
        from headrace.contracts.messages.usage import UsageAnswer  # noqa: PLC0415

        query: dict[str, object] = {
            "since": moment_text(request.since),
            "until": moment_text(request.until),
            "by": request.by,
            "per": request.per,
            "timezone": request.timezone,
        }
        while True:
            answer = await self.called.get("/v1/usage" if all_tenants else f"{self._parent}/usage", query, LONG)
            yield UsageAnswer(
                through=int(answer.get("sequence") or 0),
                rows=tuple(map(past_answers.usage_row, answer.get("lines", ()))),
                now=answers.moment(answer.get("time")),
                currency=answer.get("currency", ""),
                warnings=tuple(answer.get("warnings", ())),
                more=answer.get("next_page_token", ""),
            )
            query["page_token"] = answer.get("next_page_token", "")
            if not query["page_token"]:
                return

    async def utilization(self) -> Utilization:
        """How much each GPU that the caller may see computes now, who holds GPUs without using them, and unused nodes."""
        from headrace.client import utilization  # noqa: PLC0415 - as in `usage`

        return utilization.utilization(await self.called.get("/v1/utilization", {}))

    async def statement(self, request: StatementRequest, *, of_instances: bool = False) -> tuple[str, bool]:
        """The text of the tenant's statement of a month, and whether it is final; `of_instances`: what instances cost the provider."""
        query: dict[str, object] = {"month": request.month, "timezone": request.timezone, "form": request.form}
        text = ""
        while True:
            answer = await self.called.get("/v1/statement" if of_instances else f"{self._parent}/statement", query, LONG)
            text += answer.get("text", "")
            query["page_token"] = answer.get("next_page_token", "")
            if not query["page_token"]:
                return text, answer.get("final", False)

    async def audit_lines(self, request: AuditRequest, *, all_tenants: bool = False) -> AsyncIterator[AuditAnswer]:
        """The facts that the caller may read, page by page; `next` is not 0 if another page follows."""
        from headrace.client import past_answers  # noqa: PLC0415 - as in `usage`
        from headrace.contracts.messages.audit import AuditAnswer  # noqa: PLC0415

        query: dict[str, object] = {
            "since": moment_text(request.since),
            "until": moment_text(request.until),
            "job": request.job,
            "user": request.user,
            "node": request.node,
            "kinds": request.kinds,
            "causes": request.causes,
            "page_size": min(request.limit, PAGE),
        }
        while True:
            answer = await self.called.get("/v1/audit/lines" if all_tenants else f"{self._parent}/audit/lines", query, LONG)
            lines = tuple(map(past_answers.audit_line, answer.get("lines", ())))
            through, token = int(answer.get("sequence") or 0), answer.get("next_page_token", "")
            yield AuditAnswer(through=through, lines=lines, next=(lines[-1].sequence if lines else through) if token else 0)
            query["page_token"] = token
            if not token:
                return

    async def state(self, at: LedgerPoint, *, all_tenants: bool = False) -> AsyncIterator[PastView]:
        """The state at a position, page by page; those after the first have jobs only."""
        from headrace.client import past_answers  # noqa: PLC0415 - as in `usage`

        query = {"at": _point_text(at), "page_size": PAGE, "parent": "" if all_tenants else f"tenants/{self.tenant}"}
        while True:
            page = past_answers.past(await self.called.get("/v1/audit/state", query, LONG))
            yield page
            if not page.next:
                return
            query["page_token"] = page.next

    async def diff(self, request: DiffRequest, *, all_tenants: bool = False) -> DiffView:
        """The differences between two positions."""
        from headrace.client import past_answers  # noqa: PLC0415 - as in `usage`

        query = {
            "before": _point_text(request.before),
            "after": _point_text(request.after),
            "parent": "" if all_tenants else f"tenants/{self.tenant}",
        }
        return past_answers.difference(await self.called.get("/v1/audit/state:diff", query, LONG))

    async def what_if(
        self, changes: Mapping[str, object], *, since: str = "", until: str = "", span: int = 0
    ) -> tuple[Difference, int, int]:
        """Both simulations of a what-if side by side, and the record and log time at which they begin to differ.

        `changes`: as in a file for `headrace whatif -f`. `since`: the record or time at which they apply (empty: now). `until`: the jobs
        submitted until then are simulated as well (empty: none). `span`: length without `until`, microseconds (0: 7 days).
        The provider's people ask about all tenants, others about their own.
        """
        from headrace.client import past_answers  # noqa: PLC0415 - as in `usage`

        own = (await self.called.get("/v1/me")).get("tenant", "")
        body = {
            "parent": f"tenants/{own}" if own else "",
            "changes": changes,
            "since": since,
            "until": until,
            "span": format_duration(span) if span else "",
        }
        return past_answers.what_if(await self.called.post("/v1/audit:whatif", body, WHATIF_WITHIN))

    async def records(self, after: int) -> RecordsAnswer:
        """A page of the ledger as it was written, from the record after `after` on; for the provider."""
        from base64 import b64decode  # noqa: PLC0415 - as in `usage`

        answer = await self.called.get("/v1/audit/records", {"after": after, "page_size": PAGE, "exact": True})
        return RecordsAnswer(
            tip=int(answer.get("sequence") or 0),
            records=tuple(
                StoredRecord(
                    sequence=int(one["sequence"]),
                    subject=one.get("subject", ""),
                    stamped=answers.moment(one.get("store_time")),
                    payload=b64decode(one.get("payload", "")),
                )
                for one in answer.get("records", ())
            ),
        )

    async def watched(self, job: str) -> AsyncIterator[FeedFact]:
        """The facts about a job from now on, as the API streams them; the stream may end before the job does."""
        from headrace.client.feed import FeedFact  # noqa: PLC0415 - as in `usage`

        tenant, _, job_id = self.owner_of(job)
        async for event in self.called.lines(f"/v1/tenants/{part(tenant)}/jobs:watch", {"job": job_id}):
            answer = event.get("result", event)
            if answer.get("type") not in ("job", "alive", None):
                yield FeedFact(
                    answer["type"],
                    answers.moment(answer.get("time")),
                    int(answer.get("sequence", 0)),
                    int(answer.get("number", 0)),
                    answers.plain(answer.get("fact", {})),
                )

    async def status(self) -> InstallationView:
        """The services as they report themselves; for the provider."""
        from headrace.client import status_answers  # noqa: PLC0415 - as in `usage`

        return status_answers.installation(await self.called.get("/v1/status", within=STATUS_WITHIN))

    async def identify(self) -> None:
        """Learn from the API whom the token speaks for, if it does not say it itself."""
        if self.api is not None and not (self.tenant and self.user):
            answer = await self.api.get("/v1/me")
            self.tenant = self.tenant or answer.get("tenant", "") or "default"
            self.user = self.user or answer.get("handle", "")

    def job_path(self, job: str) -> str:
        """Path of a job in the API, by its id or key."""
        if is_job_id(job):
            return f"{self._parent}/jobs/{job}"
        tenant, user, job_id = self.owner_of(job)
        return f"/v1/tenants/{part(tenant)}/jobs/{part(user)}.{job_id}"

    def owner_of(self, job: str) -> tuple[str, str, str]:
        """(tenant, user, id) of a job, by its id (of this user) or key. Raises Refused if malformed."""
        if is_job_id(job):
            return self.tenant, self.user, job
        try:
            return split_job_key(job)
        except IdError:
            raise Refused("INVALID", f"job: invalid job id {job!r}: use a lower-case ULID of 26 characters") from None

    @property
    def _parent(self) -> str:
        return f"/v1/tenants/{part(self.tenant)}"

    async def _list(
        self, path: str, field: str, query: Mapping[str, object] | None = None, limit: int | None = None
    ) -> list[Any]:
        """The elements of a list, over as many pages as it takes."""
        asked, found = dict(query or {}), list[Any]()
        while True:
            asked["page_size"] = PAGE if limit is None else min(PAGE, limit - len(found))
            answer = await self.called.get(path, asked)
            found += answer.get(field, ())
            asked["page_token"] = answer.get("next_page_token", "")
            if not asked["page_token"] or (limit is not None and len(found) >= limit):
                return found


def moment_text(microseconds: int) -> str:
    """A time as RFC 3339, exact; empty for 0."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:06d}Z" if microseconds else ""


def _point_text(point: LedgerPoint) -> str:
    return str(point.sequence) if point.sequence else moment_text(point.at)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
