"""What must not work over gRPC, tried on a whole installation: each fails closed, and the next who asks is served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.parse import urlsplit

import grpc
import pytest
from grpc import StatusCode
from grpc_reflection.v1alpha import reflection_pb2

from headrace.contracts.api import jobs_pb2, policies_pb2, system_pb2, tenants_pb2
from tests.integration.api import Api, installation
from tests.patience import PATIENCE

ME = "/headrace.v1.System/GetCaller"
SUBMIT = "/headrace.v1.Jobs/SubmitJobs"
WATCH = "/headrace.v1.Jobs/WatchJobs"
REFLECT = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    with installation() as made:
        made.give_tokens(boss="acme", alice="acme", eve="emca")
        made.tokens["node"] = made.run("token", "create", "--node", "gpu01").strip()
        yield made


@pytest.fixture
async def channel(api: Api) -> AsyncIterator[grpc.aio.Channel]:
    options = (("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
    async with grpc.aio.insecure_channel(urlsplit(api.address).netloc, options=options) as opened:
        yield opened


def shown(api: Api, who: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {api.tokens[who]}"),)


def bare(channel: grpc.aio.Channel, path: str) -> Any:
    """A method whose requests and answers are bytes."""
    return channel.unary_unary(path, request_serializer=bytes, response_deserializer=bytes)


async def refused(call: Any) -> StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call
    return error.value.code()


async def is_served(api: Api, channel: grpc.aio.Channel) -> None:
    me = await bare(channel, ME)(b"", metadata=shown(api, "alice"), timeout=PATIENCE)
    assert system_pb2.CallerView.FromString(me).handle == "alice"


FOREIGN = tenants_pb2.GetTenantRequest(name="tenants/emca").SerializeToString()
TO_FOREIGNERS = jobs_pb2.SubmitJobsRequest(
    parent="tenants/emca", queue="dev/half", jobs=[jobs_pb2.JobSpec(command=["true"])]
).SerializeToString()

CASES: dict[str, tuple[str, str, bytes, StatusCode]] = {
    "another tenant": ("alice", "/headrace.v1.Tenants/GetTenant", FOREIGN, StatusCode.PERMISSION_DENIED),
    "a job for another tenant": ("alice", SUBMIT, TO_FOREIGNERS, StatusCode.PERMISSION_DENIED),
    "the ledger": ("boss", "/headrace.v1.Audit/ListRecords", b"", StatusCode.PERMISSION_DENIED),
    "all tokens": ("boss", "/headrace.v1.Tokens/ListTokens", b"", StatusCode.PERMISSION_DENIED),
    "a node that is no user": ("node", "/headrace.v1.Pools/ListPools", b"", StatusCode.PERMISSION_DENIED),
    "no method": ("root", "/headrace.v1.Jobs/DropTables", b"", StatusCode.UNIMPLEMENTED),
    "no service": ("root", "/headrace.v1.Shell/Run", b"", StatusCode.UNIMPLEMENTED),
    "a path with steps": ("root", "/headrace.v1.Jobs/../Tenants/DeleteTenant", b"", StatusCode.UNIMPLEMENTED),
    "another case": ("root", "/headrace.v1.tenants/gettenant", FOREIGN, StatusCode.UNIMPLEMENTED),
    "bytes that are no message": ("alice", ME, b"\xff\xff\xff\xff", StatusCode.INVALID_ARGUMENT),
    "text that is no UTF-8": ("alice", "/headrace.v1.Tenants/GetTenant", b"\x0a\x02\xff\xfe", StatusCode.INVALID_ARGUMENT),
    "a message of another kind": ("alice", "/headrace.v1.Tenants/GetTenant", TO_FOREIGNERS, StatusCode.PERMISSION_DENIED),
    "a length that lies": ("alice", SUBMIT, b"\x0a\xff\xff\xff\xff\x07", StatusCode.INVALID_ARGUMENT),
    "too deep": ("root", "/headrace.v1.Documents/ApplyDocuments", b"\x0a\x03\x0a\x01\x0a" * 5_000, StatusCode.INVALID_ARGUMENT),
    "too large": ("alice", SUBMIT, b"\x0a" * (5 * 1024 * 1024), StatusCode.RESOURCE_EXHAUSTED),
}


@pytest.mark.parametrize("case", CASES)
async def test_what_may_not_be_is_refused_and_the_next_is_served(api: Api, channel: grpc.aio.Channel, case: str) -> None:
    who, path, payload, code = CASES[case]
    code_found = await refused(bare(channel, path)(payload, metadata=shown(api, who), timeout=PATIENCE))
    assert code_found in (code, StatusCode.NOT_FOUND) if code is StatusCode.UNIMPLEMENTED else code_found is code
    await is_served(api, channel)


METADATA: dict[str, tuple[tuple[str, Any], ...]] = {
    "none": (),
    "a token that is none": (("authorization", "Bearer x.y.z"),),
    "another scheme": (("authorization", "Basic YWxpY2U6eA=="),),
    "two tokens": (("authorization", "Bearer TOKEN"), ("authorization", "Bearer TOKEN")),
    "a token as bytes": (("authorization-bin", b"Bearer TOKEN"),),
    "a name that is shown": (("x-headrace-user", "alice"), ("x-forwarded-user", "alice")),
    "too much of it": (("authorization", "Bearer TOKEN"), *((f"x-{number}", "y" * 1_000) for number in range(64))),
}


@pytest.mark.parametrize("case", METADATA)
async def test_metadata_alone_identifies_no_caller(api: Api, channel: grpc.aio.Channel, case: str) -> None:
    token = api.tokens["alice"]
    metadata = [
        (key, value.replace(b"TOKEN", token.encode()) if isinstance(value, bytes) else value.replace("TOKEN", token))
        for key, value in METADATA[case]
    ]
    code = await refused(bare(channel, ME)(b"", metadata=metadata, timeout=PATIENCE))
    assert code in (StatusCode.UNAUTHENTICATED, StatusCode.RESOURCE_EXHAUSTED, StatusCode.INTERNAL, StatusCode.UNAVAILABLE)
    await is_served(api, channel)


async def test_a_small_message_cannot_become_a_large_one(api: Api) -> None:
    async with grpc.aio.insecure_channel(
        urlsplit(api.address).netloc, compression=grpc.Compression.Gzip, options=(("grpc.max_send_message_length", -1),)
    ) as packed:
        bomb = b"\x0a" * (64 * 1024 * 1024)
        code = await refused(bare(packed, SUBMIT)(bomb, metadata=shown(api, "alice"), timeout=PATIENCE))
    assert code in (StatusCode.UNIMPLEMENTED, StatusCode.RESOURCE_EXHAUSTED)


@pytest.mark.parametrize("within", [0.000_001, 10 * 365 * 86_400])
async def test_a_deadline_that_is_absurd_ends_its_own_call_at_most(api: Api, channel: grpc.aio.Channel, within: float) -> None:
    asked = policies_pb2.GetPolicyRequest(name="tenants/acme/policies/dev", min_sequence="999999999").SerializeToString()
    code = await refused(bare(channel, "/headrace.v1.Policies/GetPolicy")(asked, metadata=shown(api, "alice"), timeout=within))
    assert code in (StatusCode.DEADLINE_EXCEEDED, StatusCode.OUT_OF_RANGE)
    await is_served(api, channel)


async def test_reflection_tells_how_the_api_is_spoken_to_and_of_no_ones_data(api: Api, channel: grpc.aio.Channel) -> None:
    ask = channel.stream_stream(
        REFLECT,
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    wanted = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_by_filename="../../../etc/passwd"),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="headrace.v1.NoSuchThing"),
    ]
    answers = [answer async for answer in ask(iter(wanted), timeout=PATIENCE)]
    names = {service.name for service in answers[0].list_services_response.service}
    assert {"headrace.v1.Jobs", "grpc.health.v1.Health"} <= names
    assert all(name.startswith(("headrace.v1.", "grpc.")) for name in names)
    assert [answer.error_response.error_code for answer in answers[1:]] == [StatusCode.NOT_FOUND.value[0]] * 2
    assert b"acme" not in b"".join(answer.SerializeToString() for answer in answers)


async def test_unread_watches_and_too_many_of_them_delay_no_other(api: Api) -> None:
    place, began = urlsplit(api.address).netloc, time.monotonic()
    alone = (("grpc.use_local_subchannel_pool", 1),)
    async with grpc.aio.insecure_channel(place, options=alone) as hog, grpc.aio.insecure_channel(place, options=alone) as other:
        watch = hog.unary_stream(
            WATCH,
            request_serializer=jobs_pb2.WatchJobsRequest.SerializeToString,
            response_deserializer=jobs_pb2.JobEvent.FromString,
        )
        request = jobs_pb2.WatchJobsRequest(parent="tenants/acme")
        watches = [watch(request, metadata=shown(api, "alice")) for _ in range(60)]
        codes = await asyncio.gather(*(_begins(one) for one in watches))
        assert (codes.count(None), set(codes)) == (50, {None, StatusCode.RESOURCE_EXHAUSTED})
        await is_served(api, other)
        mine = other.unary_stream(
            WATCH,
            request_serializer=jobs_pb2.WatchJobsRequest.SerializeToString,
            response_deserializer=jobs_pb2.JobEvent.FromString,
        )(request, metadata=shown(api, "boss"))
        assert await _begins(mine) is None
        for one in (*watches, mine):
            one.cancel()
    assert time.monotonic() - began < PATIENCE


async def _begins(watch: Any) -> StatusCode | None:
    """None once it has said something; else how it ended."""
    try:
        await watch.read()
    except grpc.aio.AioRpcError as error:
        return error.code()
    return None


async def test_a_thousand_calls_at_once_on_one_connection_are_all_answered(api: Api, channel: grpc.aio.Channel) -> None:
    calls = [bare(channel, ME)(b"", metadata=shown(api, "alice"), timeout=PATIENCE) for _ in range(1_000)]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    failed = {one.code() for one in answers if isinstance(one, grpc.aio.AioRpcError)}
    assert failed <= {StatusCode.UNAVAILABLE, StatusCode.RESOURCE_EXHAUSTED}
    assert sum(isinstance(one, bytes) for one in answers) >= 128
    await is_served(api, channel)
