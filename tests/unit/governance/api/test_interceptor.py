"""The interceptor alone: calls that the table of roles refuses do not reach the service."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from google.protobuf.message_factory import GetMessageClass
from google.rpc import status_pb2
from grpc import StatusCode

from headrace.contracts.api import jobs_pb2, pools_pb2, tenants_pb2
from headrace.contracts.schemas import protocol
from headrace.governance.api.interceptor import (
    CALLS_MAX,
    CALLS_OF_A_CALLER,
    CALLS_OF_A_TENANT,
    CALLS_OF_TENANTS,
    DETAILS,
    OPEN,
    SEQUENCE,
    AuthInterceptor,
    tenant_of,
)
from headrace.governance.api.server import Methods, handlers
from headrace.identity.caller import Caller, Role, Unauthenticated
from headrace.identity.roles import NOT_YOURS, TABLE

ALICE = Caller(Role.TENANT_MEMBER, "acme", "alice")
BOSS = Caller(Role.TENANT_ADMIN, "acme", "boss")
ROOT = Caller(Role.PROVIDER_ADMIN, "default", "root")


class Context:
    def __init__(self, *metadata, left=5.0):
        self.metadata = metadata
        self.left = left
        self.initial = self.trailing = ()
        self.ended = None

    def invocation_metadata(self):
        return self.metadata

    def time_remaining(self):
        return self.left

    async def send_initial_metadata(self, metadata):
        self.initial = metadata

    def set_trailing_metadata(self, metadata):
        self.trailing = metadata

    async def abort(self, code, message):
        self.ended = (code, message)


class Verifier:
    def __init__(self, caller=ALICE):
        self.answer = caller

    async def caller(self, _state, token):
        if token != "good" or isinstance(self.answer, Exception):
            raise self.answer if isinstance(self.answer, Exception) else Unauthenticated("the token is not good")
        return self.answer


class Backend(SimpleNamespace):
    async def reach(self, sequence, within):
        self.reached.append((sequence, within))


def backend():
    state = SimpleNamespace(sequence=7, has_tenant={"default", "acme"}.__contains__)
    return Backend(state=state, job_index=SimpleNamespace(tenants={"gone": None}), reached=[])


async def through(method, request, context, caller=ALICE, serve=None, at=None, owner=None):
    """Call a method through the interceptor; what came back."""

    async def answer(_request, call):
        return call

    door = AuthInterceptor(at or backend(), Verifier(caller), owner=owner)
    return await door.unary(method, serve or answer)(request, context)


GOOD = ("authorization", "Bearer good")


async def test_who_may_comes_through_and_hears_which_record_the_answer_reflects():
    context = Context(GOOD)
    call = await through("ListJobs", jobs_pb2.ListJobsRequest(parent="tenants/acme"), context)
    assert (call.caller, call.method, call.within, call.tenant) == (ALICE, "ListJobs", 5.0, "acme")
    assert context.initial == ((SEQUENCE, "7"),)


class Owner:
    def caller(self, shown):
        return ROOT if shown == "password" else None


@pytest.mark.parametrize(
    ("shown", "local", "who"),
    [
        ("password", (("headrace-local", "1"),), ROOT),
        ("good", (("headrace-local", "1"),), ALICE),
        ("password", (), None),
        ("other", (("headrace-local", "1"),), None),
    ],
)
async def test_the_owners_login_counts_at_the_local_socket_only_and_a_token_everywhere(shown, local, who):
    context = Context(("authorization", f"Bearer {shown}"), *local)
    call = await through("ListJobs", jobs_pb2.ListJobsRequest(parent="tenants/acme"), context, owner=Owner())
    assert (call.caller if call is not None else None) == who
    assert (context.ended is None) == (who is not None)


@pytest.mark.parametrize("metadata", [(), (("authorization", "good"),), (("authorization", "Bearer bad"),), (GOOD, GOOD)])
async def test_without_a_good_token_no_caller_comes_through(metadata):
    context = Context(*metadata)
    assert await through("ListJobs", jobs_pb2.ListJobsRequest(parent="tenants/acme"), context) is None
    assert context.ended[0] is StatusCode.UNAUTHENTICATED


async def test_a_method_that_is_not_in_the_table_is_refused_to_every_role():
    context = Context(GOOD)
    admin = Caller(Role.PROVIDER_ADMIN, "default", "root")
    assert await through("OpenEveryDoor", jobs_pb2.ListJobsRequest(parent="tenants/acme"), context, admin) is None
    assert context.ended[0] is StatusCode.PERMISSION_DENIED


async def test_bytes_that_are_not_a_request_are_told_so_once_it_is_known_who_sent_them():
    context = Context(GOOD)
    await through("GetTenant", None, context)
    assert context.ended == (StatusCode.INVALID_ARGUMENT, "GetTenant: the request cannot be decoded")
    stranger = Context()
    await through("GetTenant", None, stranger)
    assert stranger.ended[0] is StatusCode.UNAUTHENTICATED


async def test_another_tenants_things_are_refused_before_the_service_hears_of_it():
    async def serve(*_):
        raise AssertionError("it was called")

    context = Context(GOOD)
    assert await through("GetTenant", tenants_pb2.GetTenantRequest(name="tenants/emca"), context, serve=serve) is None
    assert context.ended[0] is StatusCode.PERMISSION_DENIED
    (_, details) = context.trailing[0]
    assert status_pb2.Status.FromString(details).code == 7
    assert context.trailing[0][0] == DETAILS


async def test_a_defect_tells_only_that_it_is_one():
    async def serve(*_):
        raise KeyError("secret")

    context = Context(GOOD)
    await through("GetPool", pools_pb2.GetPoolRequest(name="pools/a"), context, serve=serve)
    assert context.ended == (StatusCode.INTERNAL, "GetPool failed; the log of governance has the reason")


async def test_a_read_waits_for_the_record_it_asks_for():
    at = backend()
    await through("GetPool", pools_pb2.GetPoolRequest(name="pools/a", min_sequence="9"), Context(GOOD, left=None), at=at)
    assert at.reached == [(9, 60.0)]


async def test_a_stream_ends_when_its_reader_is_thrown_out():
    verifier = Verifier()

    async def serve(_request, _call):
        yield "one"
        yield "two"

    served = AuthInterceptor(backend(), verifier).stream("WatchJobs", serve)
    context, received = Context(GOOD), []
    async for item in served(jobs_pb2.WatchJobsRequest(parent="tenants/acme"), context):
        received.append(item)
        verifier.answer = Unauthenticated("revoked")
    assert (received, context.ended) == (["one"], (StatusCode.UNAUTHENTICATED, "revoked"))


def test_whose_a_thing_is_is_read_from_its_own_name():
    found = {
        "parent": tenant_of(jobs_pb2.ListJobsRequest(parent="tenants/acme")),
        "name": tenant_of(jobs_pb2.GetJobRequest(name="tenants/emca/jobs/x")),
        "resource": tenant_of(tenants_pb2.UpdateTenantRequest(tenant={"name": "tenants/acme"})),
        "provider": tenant_of(pools_pb2.GetPoolRequest(name="pools/onprem")),
        "nothing": tenant_of(tenants_pb2.ListTenantsRequest()),
    }
    assert found == {"parent": "acme", "name": "emca", "resource": "acme", "provider": "", "nothing": ""}


def test_every_method_has_a_row_in_the_table_and_a_service_behind_it():
    methods = {method.name: protocol.path_of(method) for method in protocol.methods()}
    assert handlers().keys() == methods.keys()
    assert {name for name, path in methods.items() if path not in OPEN} <= TABLE.keys()


async def test_every_method_is_behind_the_door_but_for_what_is_open_and_what_is_unknown_is_nothing():
    methods = Methods(AuthInterceptor(backend(), Verifier(Unauthenticated("no"))))
    behind = set()
    for method in protocol.methods():
        context = Context(GOOD)
        handler = methods.service(SimpleNamespace(method=protocol.path_of(method)))
        request = handler.request_deserializer(b"")
        if method.server_streaming:
            assert [item async for item in handler.unary_stream(request, context)] == []
        else:
            await handler.unary_unary(request, context)
        if context.ended == (StatusCode.UNAUTHENTICATED, "no"):
            behind.add(protocol.path_of(method))
    assert {protocol.path_of(method) for method in protocol.methods()} - behind == {
        "/headrace.v1.System/GetOpenApi",
        "/headrace.v1.Pages/GetPage",
        "/headrace.v1.Logins/RedeemLoginCode",
    }
    assert methods.service(SimpleNamespace(method="/headrace.v1.Jobs/Nothing")) is None


LISTS = [
    method
    for method in protocol.methods()
    if method.name.startswith(("List", "Watch")) and "parent" in method.input_type.fields_by_name
]


@pytest.mark.parametrize("method", LISTS, ids=lambda method: method.name)
async def test_a_list_of_a_tenant_that_is_not_there_is_not_found_by_the_provider_and_not_allowed_to_others(method):
    jobs = "/jobs/x" if method.name == "ListJobFacts" else ""
    kind = GetMessageClass(method.input_type)
    found = {}
    for tenant, caller in (("nope", ROOT), ("nope", BOSS), ("gone", ROOT), ("acme", ROOT), ("acme", BOSS)):
        context = Context(GOOD)
        await through(method.name, kind(parent=f"tenants/{tenant}{jobs}"), context, caller)
        found[tenant, caller.handle] = context.ended
    assert found == {
        ("nope", "root"): (StatusCode.NOT_FOUND, "parent: there is no tenant 'nope'"),
        ("nope", "boss"): (StatusCode.PERMISSION_DENIED, NOT_YOURS),
        ("gone", "root"): None,
        ("acme", "root"): None,
        ("acme", "boss"): None,
    }


async def test_calls_that_wait_for_a_sequence_count_and_one_caller_leaves_room_for_others_of_its_tenant(monkeypatch):
    monkeypatch.setattr("headrace.governance.api.interceptor.CALLS_OF_A_CALLER", 1)
    gate, at = asyncio.Event(), backend()

    async def reach(_sequence, _within):
        await gate.wait()

    async def handle(_request, call):
        return call.caller.handle

    monkeypatch.setattr(at, "reach", reach, raising=False)
    verifier = Verifier()
    serve = AuthInterceptor(at, verifier).unary("ListJobs", handle)
    waiting = jobs_pb2.ListJobsRequest(parent="tenants/acme", min_sequence="999")
    first = asyncio.create_task(serve(waiting, Context(GOOD)))
    await asyncio.sleep(0)
    second = Context(GOOD)
    assert await serve(waiting, second) is None
    assert second.ended == (
        StatusCode.RESOURCE_EXHAUSTED,
        "you have too many calls under way; end some, or try again in 1 s",
    )
    verifier.answer = Caller(Role.TENANT_MEMBER, "acme", "bob")
    assert await serve(jobs_pb2.ListJobsRequest(parent="tenants/acme"), Context(GOOD)) == "bob"
    gate.set()
    assert await first == "alice"


def test_tenants_together_leave_room_for_the_providers_calls():
    assert CALLS_OF_A_CALLER < CALLS_OF_A_TENANT < CALLS_OF_TENANTS < CALLS_MAX


async def test_one_tenant_does_not_take_all_the_calls_that_there_may_be(monkeypatch):
    monkeypatch.setattr("headrace.governance.api.interceptor.CALLS_OF_A_TENANT", 1)
    gate = asyncio.Event()

    async def slow(_request, call):
        await gate.wait()
        return call.caller.handle

    verifier = Verifier()
    serve = AuthInterceptor(backend(), verifier).unary("ListJobs", slow)
    request = jobs_pb2.ListJobsRequest(parent="tenants/acme")
    first = asyncio.create_task(serve(request, Context(GOOD)))
    await asyncio.sleep(0)
    second = Context(GOOD)
    assert await serve(request, second) is None
    message = "your tenant has too many calls under way; end some, or try again in 1 s"
    assert second.ended == (StatusCode.RESOURCE_EXHAUSTED, message)
    verifier.answer = ROOT
    provider = asyncio.create_task(serve(request, Context(GOOD)))
    await asyncio.sleep(0)
    gate.set()
    assert (await first, await provider) == ("alice", "root")
    verifier.answer = ALICE
    assert await serve(request, Context(GOOD)) == "alice"
