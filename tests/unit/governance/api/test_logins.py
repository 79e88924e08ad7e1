"""Codes for one login: once, for ten minutes, and of a token only."""

from __future__ import annotations

import pytest

from headrace.contracts.api import logins_pb2 as pb
from headrace.governance.api.errors import ApiError
from headrace.governance.api.logins import CODES_MAX, GOOD_FOR, Logins

TOKEN = "head.body.signature"


class Context:
    async def abort(self, code, message) -> None:
        raise ConnectionAbortedError(code, message)


@pytest.fixture
def clock() -> list[int]:
    return [1_000_000]


@pytest.fixture
def logins(clock) -> Logins:
    return Logins(lambda: clock[0])


def login_code_request(token: str = TOKEN) -> pb.CreateLoginCodeRequest:
    return pb.CreateLoginCodeRequest(token=token)


async def redeemed(logins: Logins, code: str) -> str:
    return (await logins.redeem_login_code(pb.RedeemLoginCodeRequest(code=code), Context())).token


async def test_a_code_gives_its_token_once(logins) -> None:
    code = (await logins.create_login_code(login_code_request(), None)).code
    assert await redeemed(logins, code) == TOKEN
    with pytest.raises(ConnectionAbortedError, match="it was used already or has expired"):
        await redeemed(logins, code)


async def test_a_code_expires(logins, clock) -> None:
    answer = await logins.create_login_code(login_code_request(), None)
    assert answer.expire_time.ToMicroseconds() == clock[0] + GOOD_FOR
    clock[0] += GOOD_FOR
    with pytest.raises(ConnectionAbortedError, match="it was used already or has expired"):
        await redeemed(logins, answer.code)


@pytest.mark.parametrize("token", ["a", "a.b", "a.b.c d", "a.b.c\n", "a." + "b" * 8_192 + ".c"])
async def test_what_is_not_a_token_is_not_kept(logins, token) -> None:
    with pytest.raises(ApiError, match="token: it is malformed"):
        await logins.create_login_code(login_code_request(token), None)


async def test_codes_that_have_expired_make_place_for_others(logins, clock) -> None:
    for _ in range(CODES_MAX):
        await logins.create_login_code(login_code_request(), None)
    with pytest.raises(ApiError, match="too many codes wait to be redeemed; try again later"):
        await logins.create_login_code(login_code_request(), None)
    clock[0] += GOOD_FOR
    assert (await logins.create_login_code(login_code_request(), None)).code
