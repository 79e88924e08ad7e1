"""Codes that log a browser in once: a token must not stand in an address, which terminals, histories and screenshots keep.

Codes are kept in memory only. When governance ends, those that were not redeemed are lost, and `headrace page` makes another.
"""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from grpc import StatusCode

from headrace.contracts.api import logins_pb2 as pb
from headrace.contracts.values.durations import MINUTE
from headrace.governance.api.errors import ApiError, invalid
from headrace.governance.api.messages import moment
from headrace.service.fold import wall_clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.governance.api.context import CallContext

GOOD_FOR = 10 * MINUTE
"""Lifetime of a code, in microseconds."""
CODES_MAX = 1_000
_TOKEN = re.compile(r"(?=.{1,8192}$)[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)
CODE_BYTES = 24


class _Kept(NamedTuple):
    token: str
    until: int


class Logins:
    """The codes that were not redeemed yet. `clock`: microseconds since 1970."""

    def __init__(self, clock: Callable[[], int] = wall_clock) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    async def create_login_code(self, request: Any, _call: CallContext) -> pb.LoginCode:
        """Keep a token under a new code. Raises ApiError if it is malformed, or if too many codes are kept.

        The token is not verified here: it is worth nothing more to who gets it back than what it is.
        """
        now = self._clock()
        if not _TOKEN.fullmatch(request.token):
            raise invalid("token", "it is malformed; write a token as `headrace token create` prints it")
        self._kept = {code: kept for code, kept in self._kept.items() if kept.until > now}
        if len(self._kept) >= CODES_MAX:
            raise ApiError(
                StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_CODES", "too many codes wait to be redeemed; try again later"
            )
        code = secrets.token_urlsafe(CODE_BYTES)
        self._kept[code] = _Kept(request.token, now + GOOD_FOR)
        return pb.LoginCode(code=code, expire_time=moment(now + GOOD_FOR))

    async def redeem_login_code(self, request: Any, context: Any) -> pb.LoginToken | None:
        """The token of a code, which is forgotten."""
        kept = self._kept.pop(request.code, None) if request is not None else None
        if kept is None or kept.until <= self._clock():
            await context.abort(StatusCode.NOT_FOUND, "code: it was used already or has expired; `headrace page` makes another")
            return None
        return pb.LoginToken(token=kept.token)
