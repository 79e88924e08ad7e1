"""The gRPC server: every method of the protos behind the interceptor, health and reflection beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from headrace.contracts.schemas import protocol
from headrace.governance.api import (
    accounts,
    apply,
    audit_lines,
    document_service,
    erasure,
    history,
    instances,
    jobs,
    nodes,
    pages,
    preemptions,
    queues,
    status,
    system,
    timeline,
    tokens,
    usage,
    utilization,
    verification,
)
from headrace.governance.api.device_loads import LastLoads
from headrace.governance.api.interceptor import CALLS_MAX, OPEN, AuthInterceptor
from headrace.governance.api.logins import Logins
from headrace.governance.api.overview import Overviews
from headrace.governance.api.submit import SubmitService
from headrace.governance.api.watch import Watches
from headrace.governance.api.whatif_service import WhatIfService

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message

MESSAGE_MAX = 4 * 1024 * 1024
"""Maximum bytes of a request; a set of documents or a thousand jobs fit."""
ANSWER_MAX = 64 * 1024 * 1024
METADATA_MAX = 16 * 1024

_OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_MAX),
    ("grpc.max_send_message_length", ANSWER_MAX),
    ("grpc.max_metadata_size", METADATA_MAX),
    ("grpc.compression_enabled_algorithms_bitset", 1),  # no compression: a small message cannot expand to a large one
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_permit_without_calls", 1),
)


def handlers() -> dict[str, Callable[..., Any]]:
    """Handlers by the method's name."""
    own: dict[str, Callable[..., Any]] = {
        "ListServiceAccounts": accounts.list_service_accounts,
        "GetServiceAccount": accounts.get_service_account,
        "CreateServiceAccount": accounts.create_service_account,
        "UpdateServiceAccount": accounts.update_service_account,
        "DeleteServiceAccount": accounts.delete_service_account,
        "ApplyDocuments": apply.apply_documents,
        "GetDocuments": apply.get_documents,
        "DeleteDocument": apply.delete_document,
        "ListQueues": queues.list_queues,
        "GetQueue": queues.get_queue,
        "ListNodes": nodes.list_nodes,
        "GetNode": nodes.get_node,
        "CordonNode": nodes.cordon_node,
        "UncordonNode": nodes.uncordon_node,
        "DrainNode": nodes.drain_node,
        "ConfirmNodeEmpty": nodes.confirm_node_empty,
        "RemoveNode": nodes.remove_node,
        "ApproveNode": nodes.approve_node,
        "ListInstances": instances.list_instances,
        "ListOffers": instances.list_offers,
        "PlanGrowth": instances.plan_growth,
        "CheckOffers": instances.check_offers,
        "EndInstance": instances.end_instance,
        "SubmitJobs": SubmitService().submit_jobs,
        "ListJobs": jobs.list_jobs,
        "GetJob": jobs.get_job,
        "ListJobFacts": jobs.list_job_facts,
        "GetJobLogs": jobs.get_job_logs,
        "ExplainJob": jobs.explain_job,
        "CancelJob": jobs.cancel_job,
        "CancelJobs": jobs.cancel_jobs,
        "RequeueJob": jobs.requeue_job,
        "PreemptJob": jobs.preempt_job,
        "WatchJobs": Watches().watch_jobs,
        "EraseTenant": erasure.erase_tenant,
        "EraseUser": erasure.erase_user,
        "ListTokens": tokens.list_tokens,
        "GetToken": tokens.get_token,
        "CreateToken": tokens.create_token,
        "RevokeToken": tokens.revoke_token,
        "RevokeBearer": tokens.revoke_bearer,
        "GetUsage": usage.get_usage,
        "GetUtilization": utilization.get_utilization,
        "GetStatement": usage.get_statement,
        "GetOpenApi": system.get_open_api,
        "GetCaller": system.get_caller,
        "GetStatus": status.get_status,
    }
    return own | _history_handlers() | _page_handlers() | document_service.handlers()


def _history_handlers() -> dict[str, Callable[..., Any]]:
    """The ledger, earlier states, and what would have happened."""
    supposing = WhatIfService()
    return {
        "ListAuditLines": audit_lines.list_audit_lines,
        "ListRecords": history.list_records,
        "GetState": history.get_state,
        "DiffStates": history.diff_states,
        "GetVerification": verification.get_verification,
        "GetTimeline": timeline.get_timeline,
        "ListPreemptions": preemptions.list_preemptions,
        "GetPreemption": preemptions.get_preemption,
        "WhatIf": supposing.what_if,
        "GetWhatIfQueue": supposing.get_what_if_queue,
    }


def _page_handlers() -> dict[str, Callable[..., Any]]:
    """What the page in a browser needs beside the others."""
    overviews, logins = Overviews(loads=LastLoads()), Logins()
    return {
        "GetOverview": overviews.get_overview,
        "WatchOverview": overviews.watch_overview,
        "GetPage": pages.get_page,
        "CreateLoginCode": logins.create_login_code,
        "RedeemLoginCode": logins.redeem_login_code,
    }


class Api:
    """The server on one address, such as `unix:/path` or `127.0.0.1:0`; `port` is the port that it got."""

    def __init__(self, interceptor: AuthInterceptor, address: str) -> None:
        self._server = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=CALLS_MAX)
        self._health = health.aio.HealthServicer()
        self._server.add_generic_rpc_handlers((Methods(interceptor),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = [service.full_name for service in protocol.services()]
        reflection.enable_server_reflection((*names, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server)
        self.port = self._server.add_insecure_port(address)

    async def start(self) -> None:
        await self._server.start()
        await self._health.set("", health_pb2.HealthCheckResponse.SERVING)

    async def stop(self, grace: float = 1.0) -> None:
        """Accept no further calls; calls in progress have `grace` seconds to end."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)


class Methods(grpc.GenericRpcHandler):
    """Every method of every service, by its path, behind the interceptor except for those that need no token."""

    def __init__(self, interceptor: AuthInterceptor) -> None:
        serving = handlers()
        self._handlers = {
            protocol.path_of(method): _handler(method, serving[method.name], interceptor) for method in protocol.methods()
        }

    def service(self, handler_call_details: Any) -> Any:
        """Handler of a call; None for an unknown path."""
        return self._handlers.get(handler_call_details.method)


def _reads(kind: Any) -> Callable[[bytes], Message | None]:
    """Decoder of requests; None for malformed bytes, which the interceptor reports as the caller's error."""

    def read(payload: bytes) -> Message | None:
        try:
            message: Message = kind.FromString(payload)
        except (DecodeError, RecursionError):
            return None
        return message

    return read


def _handler(method: MethodDescriptor, serve: Callable[..., Any], interceptor: AuthInterceptor) -> Any:
    request, answer = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    coders: dict[str, Any] = {"request_deserializer": _reads(request), "response_serializer": answer.SerializeToString}
    is_open = protocol.path_of(method) in OPEN
    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(serve if is_open else interceptor.stream(method.name, serve), **coders)
    return grpc.unary_unary_rpc_method_handler(serve if is_open else interceptor.unary(method.name, serve), **coders)
