"""Configuration of the gateway before the API: Envoy, which translates HTTP/JSON and gRPC-Web to gRPC, on one port and a local socket.

Strategy: it is strict, so that the API sees only what its protos define. Unknown paths are 404, known ones with another verb 405, unknown
query parameters and fields 400; escaped slashes, underscores in headers and requests that are too large or too slow are refused; its own
answers are the same JSON as the API's errors. It decides nothing about callers: tokens are passed to the API. It tells the API which
calls came through the local socket, where the owner's login counts as a token; nothing that a caller sends can say so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from headrace.contracts.schemas import protocol
from headrace.identity.owner import LOCAL
from headrace.supervisor.network.body_schema import script

Config = dict[str, Any]

CLUSTER = "api"
LOCAL_MODE = 0o600
"""Permissions of the local socket."""
HEALTH_PATH = "/healthz"
REQUEST_BYTES_MAX = 4 * 1024 * 1024
ANSWER_BYTES_MAX = 64 * 1024 * 1024
HEADERS_KIB_MAX = 32
CONNECTIONS_MAX = 4_096
IDLE = "30s"
"""Maximum time of a connection without a request or a completed handshake: idle ones must not exhaust the limit of connections."""
HANDSHAKE_WITHIN = "10s"
WATCHDOG = {"miss_timeout": "5s", "megamiss_timeout": "10s"}
"""After how long a stuck thread is counted. Each thread wakes twice in `miss_timeout`, which Envoy sets to 0.2 s unless told otherwise."""
STREAMS_MAX = 128

ANSWER_WITHIN = "65s"
"""Timeout of a request: a little more than the API's own."""
LONG = {"WhatIf": "605s"} | dict.fromkeys(("GetState", "DiffStates", "ExplainJob", "GetUsage", "GetStatement"), "125s")
"""Timeouts of methods that may take longer."""

HEAP_BYTES_MAX, HEAP_FULL = 1024 * 1024 * 1024, 0.9
"""Maximum of all buffers together in bytes, and the fraction of it from which on requests are refused (503)."""

_HEAP = "envoy.resource_monitors.fixed_heap"
_REFUSE = "envoy.overload_actions.stop_accepting_requests"
_CONNECTIONS = "envoy.resource_monitors.global_downstream_max_connections"
_TYPE = "type.googleapis.com/envoy.extensions."
_CODES = {400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 408: 4, 413: 8, 415: 3, 429: 8, 431: 8, 503: 14, 504: 4}
"""Codes of gRPC for the gateway's own statuses."""

_REASONS = {
    400: "MALFORMED",
    404: "NO_SUCH_PATH",
    405: "NO_SUCH_METHOD",
    408: "TOO_SLOW",
    413: "TOO_LARGE",
    431: "TOO_LARGE",
    503: "UNAVAILABLE",
    504: "TOO_SLOW",
}

_SILENT = {
    "path_normalization_failed": (400, "the path cannot be read: it has an escaped slash or a malformed escape"),
    "query_missing_content_type": (405, "no path knows QUERY; /openapi.json lists what each does"),
}
"""Status and message for errors for which Envoy has no message of its own, by Envoy's name of the error."""


_SPOKEN: tuple[Config, ...] = (
    {"grpc": {}},
    {"headers": [{"name": "content-type", "string_match": {"prefix": "application/grpc-web"}}]},  # gRPC only behind its filter
)
"""Matches of routes that identify a call of gRPC."""


class Tls(NamedTuple):
    """Files of a certificate and its key."""

    certificate: str
    key: str


def gateway_config(
    socket: str, descriptors: str, *, host: str, port: int, local: str, tls: Tls | None = None, called: str = "headrace"
) -> str:
    """Return the configuration as JSON. `socket`: where the API listens; `descriptors`: the file of `protocol.descriptors()`.

    `local`: the socket for the owner of the machine. `called`: the gateway's name in its answer to health checks (`readiness.WHO`).
    """
    chain, own_chain = _chain(descriptors, is_local=False), _chain(descriptors, is_local=True)
    if tls is not None:
        chain["transport_socket"] = _named("envoy.transport_sockets.tls", _tls(tls))
        chain["transport_socket_connect_timeout"] = HANDSHAKE_WITHIN
    both = {"per_connection_buffer_limit_bytes": REQUEST_BYTES_MAX + 64 * 1024}
    listeners = [
        both
        | {
            "name": "http",
            "address": {"socket_address": {"address": host, "port_value": port}},
            "enable_reuse_port": False,
            "filter_chains": [chain],
        },
        both
        | {
            "name": "local",
            "address": {"pipe": {"path": local, "mode": LOCAL_MODE}},
            "filter_chains": [own_chain],
            # strangers that use up the connections or the memory do not keep the owner out
            "ignore_global_conn_limit": True,
            "bypass_overload_manager": True,
        },
    ]
    config = {
        "node": {"id": "gateway", "cluster": called},
        "static_resources": {"listeners": listeners, "clusters": [_cluster(socket)]},
        "overload_manager": {
            "refresh_interval": "0.25s",
            "resource_monitors": [_named(_CONNECTIONS, _connections()), _named(_HEAP, _heap())],
            "actions": [{"name": _REFUSE, "triggers": [{"name": _HEAP, "threshold": {"value": HEAP_FULL}}]}],
        },
        "watchdogs": {"main_thread_watchdog": WATCHDOG, "worker_watchdog": WATCHDOG},
        # what /healthz reads is a statistic; no other one is used
        "stats_config": {"stats_matcher": {"inclusion_list": {"patterns": [{"prefix": f"cluster.{CLUSTER}.membership"}]}}},
    }
    return json.dumps(config, indent=2) + "\n"


def _chain(descriptors: str, *, is_local: bool) -> Config:
    manager = _manager(descriptors, is_local=is_local)
    return {"filters": [_named("envoy.filters.network.http_connection_manager", manager)]}


def _connections() -> Config:
    return {
        "@type": f"{_TYPE}resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
        "max_active_downstream_connections": CONNECTIONS_MAX,
    }


def _heap() -> Config:
    return {
        "@type": f"{_TYPE}resource_monitors.fixed_heap.v3.FixedHeapConfig",
        "max_heap_size_bytes": HEAP_BYTES_MAX,
    }


def _named(name: str, config: Config) -> Config:
    return {"name": name, "typed_config": config}


def _tls(tls: Tls) -> Config:
    certificate = {"certificate_chain": {"filename": tls.certificate}, "private_key": {"filename": tls.key}}
    return {
        "@type": f"{_TYPE}transport_sockets.tls.v3.DownstreamTlsContext",
        "common_tls_context": {
            "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
            "tls_certificates": [certificate],
            "alpn_protocols": ["h2", "http/1.1"],
        },
    }


def _manager(descriptors: str, *, is_local: bool) -> Config:
    header = {"header": {"key": LOCAL, "value": "1"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    headers: Config = {"request_headers_to_add": [header]} if is_local else {"request_headers_to_remove": [LOCAL]}
    return {
        "@type": f"{_TYPE}filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "http",
        "codec_type": "AUTO",
        "server_name": "headrace",
        "use_remote_address": True,
        "normalize_path": True,
        "merge_slashes": True,
        "path_with_escaped_slashes_action": "REJECT_REQUEST",
        "max_request_headers_kb": HEADERS_KIB_MAX,
        "common_http_protocol_options": {
            "idle_timeout": IDLE,
            "headers_with_underscores_action": "REJECT_REQUEST",
        },
        "http_protocol_options": {"allow_custom_methods": True},  # an unknown verb is refused like any other: by its path
        "http2_protocol_options": {
            "max_concurrent_streams": STREAMS_MAX,
            "initial_stream_window_size": 1024 * 1024,
            "initial_connection_window_size": 4 * 1024 * 1024,
        },
        "request_headers_timeout": "10s",
        "request_timeout": "60s",
        "stream_idle_timeout": "120s",
        "local_reply_config": _local_replies(),
        "route_config": {
            "name": "routes",
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": list(_routes())}],
            **headers,
        },
        "http_filters": [
            _named("envoy.filters.http.health_check", _health()),
            _named("envoy.filters.http.grpc_web", {"@type": f"{_TYPE}filters.http.grpc_web.v3.GrpcWeb"}),
            _named("envoy.filters.http.lua", _strictness()),
            _named("envoy.filters.http.grpc_json_transcoder", _transcoder(descriptors)),
            _named("envoy.filters.http.router", {"@type": f"{_TYPE}filters.http.router.v3.Router"}),
        ],
    }


def _health() -> Config:
    return {
        "@type": f"{_TYPE}filters.http.health_check.v3.HealthCheck",
        "pass_through_mode": False,
        "cluster_min_healthy_percentages": {CLUSTER: {"value": 1}},
        "headers": [{"name": ":path", "string_match": {"exact": HEALTH_PATH}}],
    }


def _strictness() -> Config:
    return {"@type": f"{_TYPE}filters.http.lua.v3.Lua", "default_source_code": {"inline_string": script()}}


def _transcoder(descriptors: str) -> Config:
    return {
        "@type": f"{_TYPE}filters.http.grpc_json_transcoder.v3.GrpcJsonTranscoder",
        "proto_descriptor": descriptors,
        "services": [service.full_name for service in protocol.services()],
        "convert_grpc_status": True,
        "case_insensitive_enum_parsing": True,
        "query_param_unescape_plus": True,
        "url_unescape_spec": "ALL_CHARACTERS_EXCEPT_SLASH",
        "max_request_body_size": REQUEST_BYTES_MAX,
        "max_response_body_size": ANSWER_BYTES_MAX,
        "request_validation_options": {
            "reject_unknown_query_parameters": True,
            "reject_binding_body_field_collisions": True,
        },
        "print_options": {"preserve_proto_field_names": True, "stream_newline_delimited": True},
    }


def _routes() -> Iterator[Config]:
    """Yield the routes: methods to the API; unlimited streams; all other paths and verbs to direct errors."""
    for method in protocol.methods():
        if method.server_streaming:
            yield {
                "match": {"path": protocol.path_of(method)},
                "route": {"cluster": CLUSTER, "timeout": "0s", "max_stream_duration": {"grpc_timeout_header_max": "0s"}},
            }
        elif method.name in LONG:
            within = LONG[method.name]
            long = {"cluster": CLUSTER, "timeout": within, "idle_timeout": within}
            yield {"match": {"path": protocol.path_of(method)}, "route": long}
    for prefix in (f"/{protocol.PACKAGE}.", "/grpc.health.v1.", "/grpc.reflection."):
        for spoken in _SPOKEN:
            yield {
                "match": {"prefix": prefix, **spoken},
                "route": {
                    "cluster": CLUSTER,
                    "timeout": ANSWER_WITHIN,
                    "max_stream_duration": {"grpc_timeout_header_max": "0s"},
                    "retry_policy": {"retry_on": "connect-failure,refused-stream", "num_retries": 2},
                },
            }
    verbs: dict[str, set[str]] = {}
    for method in protocol.methods():
        for one in protocol.bindings(method):
            verbs.setdefault(one.pattern, set()).add(one.verb.upper())
    for pattern in sorted(verbs, key=lambda pattern: (pattern.count("[^/:]+"), pattern)):
        allowed = ", ".join(sorted(verbs[pattern]))
        yield {
            "match": {"safe_regex": {"regex": pattern}},
            "direct_response": {"status": 405, "body": {"inline_string": f"this path knows {allowed}"}},
            "response_headers_to_add": [_allow(verbs[pattern])],
        }
    nowhere = "unknown path; /openapi.json lists all paths"
    yield {"match": {"prefix": "/"}, "direct_response": {"status": 404, "body": {"inline_string": nowhere}}}


def _allow(verbs: Iterable[str]) -> Config:
    return {"header": {"key": "allow", "value": ", ".join(sorted(verbs))}}


def _verbs() -> set[str]:
    return {one.verb.upper() for method in protocol.methods() for one in protocol.bindings(method)}


def _local_replies() -> Config:
    """Return the gateway's own errors, in the format of the API's."""

    def body(code: int, reason: str, message: str = "%LOCAL_REPLY_BODY%") -> Config:
        info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "headrace.dev"}
        return {"json_format": {"code": code, "message": message, "details": [info]}}

    def status(value: int) -> Config:
        comparison = {"op": "EQ", "value": {"default_value": value, "runtime_key": "none"}}
        return {"status_code_filter": {"comparison": comparison}}

    def detail(text: str) -> Config:
        kind = {"@type": f"{_TYPE}access_loggers.filters.cel.v3.ExpressionFilter"}
        return {"extension_filter": _named("cel", kind | {"expression": f"response.code_details == '{text}'"})}

    def silent(one: str, http: int, message: str) -> Config:
        """Return an error for a request whose path has not been matched yet, so its list of allowed verbs has all of them."""
        allow = [_allow(_verbs())] if http == 405 else []
        reply = body(_CODES[http], _REASONS[http], message)
        return {"filter": detail(one), "status_code": http, "body_format_override": reply, "headers_to_add": allow}

    well = {"filter": status(200), "body_format_override": {"json_format": {"status": "SERVING"}}}  # the answer of /healthz
    mappers = (
        [well]
        + [silent(one, http, message) for one, (http, message) in _SILENT.items()]
        + [
            {"filter": status(http), "body_format_override": body(code, _REASONS.get(http, "REFUSED"))}
            for http, code in _CODES.items()
        ]
    )
    return {"mappers": mappers, "body_format": body(2, "REFUSED")}


def _cluster(socket: str) -> Config:
    options = {
        "@type": f"{_TYPE}upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {"max_concurrent_streams": STREAMS_MAX}},
    }
    return {
        "name": CLUSTER,
        "connect_timeout": "1s",
        "type": "STATIC",
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
        "circuit_breakers": {"thresholds": [{"max_connections": 64, "max_pending_requests": 2_000, "max_requests": 2_000}]},
        "health_checks": [
            {
                "timeout": "1s",
                "interval": "5s",
                "no_traffic_interval": "1s",
                "no_traffic_healthy_interval": "5s",
                "unhealthy_interval": "0.25s",
                "unhealthy_threshold": 2,
                "healthy_threshold": 1,
                "grpc_health_check": {},
            }
        ],
        "load_assignment": {
            "cluster_name": CLUSTER,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"pipe": {"path": socket}}}}]}],
        },
    }
