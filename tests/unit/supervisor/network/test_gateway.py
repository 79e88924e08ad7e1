from __future__ import annotations

import json
import re

from headrace.contracts.schemas import protocol
from headrace.supervisor.network.gateway import Tls, gateway_config


def manager(config, number=0):
    listener = config["static_resources"]["listeners"][number]
    return listener["filter_chains"][0]["filters"][0]["typed_config"]


def made(**more):
    return json.loads(
        gateway_config("/data/api.sock", "/data/api.pb", host="127.0.0.1", port=8080, local="/data/local.sock", **more)
    )


def test_it_listens_where_it_is_told_and_nowhere_else():
    config = made()
    listener, local = config["static_resources"]["listeners"]
    (cluster,) = config["static_resources"]["clusters"]
    assert listener["address"]["socket_address"] == {"address": "127.0.0.1", "port_value": 8080}
    assert listener["enable_reuse_port"] is False
    assert local["address"] == {"pipe": {"path": "/data/local.sock", "mode": 0o600}}
    assert "admin" not in config
    endpoint = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]
    assert endpoint == {"address": {"pipe": {"path": "/data/api.sock"}}}


def test_its_threads_wake_seldom_for_their_watchdog():
    watchdogs = made()["watchdogs"]
    assert sorted(watchdogs) == ["main_thread_watchdog", "worker_watchdog"]
    assert {one["miss_timeout"] for one in watchdogs.values()} == {"5s"}


def test_every_service_is_transcoded_and_what_is_unknown_is_refused():
    transcoder = next(one for one in manager(made())["http_filters"] if one["name"].endswith("transcoder"))["typed_config"]
    assert transcoder["services"] == [service.full_name for service in protocol.services()]
    assert transcoder["request_validation_options"]["reject_unknown_query_parameters"] is True


def test_a_known_path_with_another_verb_and_everything_else_goes_to_no_service():
    routes = manager(made())["route_config"]["virtual_hosts"][0]["routes"]
    direct = [route for route in routes if "direct_response" in route]
    first = next(route for route in direct if re.fullmatch(route["match"]["safe_regex"]["regex"], "/v1/pools/onprem"))
    assert first["direct_response"]["status"] == 405
    assert first["response_headers_to_add"] == [{"header": {"key": "allow", "value": "DELETE, GET, PATCH"}}]
    assert direct[-1] == routes[-1]
    assert routes[-1]["direct_response"]["status"] == 404


def test_a_stream_has_no_timeout_what_is_long_a_long_one_and_everything_else_has_one():
    routes = manager(made())["route_config"]["virtual_hosts"][0]["routes"]
    timeouts = {json.dumps(route["match"]): route["route"]["timeout"] for route in routes if "route" in route}
    assert timeouts['{"path": "/headrace.v1.Jobs/WatchJobs"}'] == "0s"
    assert timeouts['{"path": "/headrace.v1.Audit/WhatIf"}'] == "605s"
    assert timeouts['{"path": "/headrace.v1.Audit/GetState"}'] == "125s"
    assert {value for key, value in timeouts.items() if "path" not in key} == {"65s"}


def test_connections_that_ask_nothing_end_soon():
    config = made(tls=Tls("/tls/cert.pem", "/tls/key.pem"))
    assert manager(config)["common_http_protocol_options"]["idle_timeout"] == "30s"
    assert config["static_resources"]["listeners"][0]["filter_chains"][0]["transport_socket_connect_timeout"] == "10s"


def test_with_a_certificate_it_speaks_tls():
    config = made(tls=Tls("/tls/cert.pem", "/tls/key.pem"))
    socket = config["static_resources"]["listeners"][0]["filter_chains"][0]["transport_socket"]["typed_config"]
    (certificate,) = socket["common_tls_context"]["tls_certificates"]
    assert certificate["certificate_chain"] == {"filename": "/tls/cert.pem"}


def test_what_it_says_by_itself_has_a_code_a_reason_and_a_message():
    replies = manager(made())["local_reply_config"]
    well, *others = (mapper["body_format_override"] for mapper in replies["mappers"])
    assert well == {"json_format": {"status": "SERVING"}}
    for one in (*others, replies["body_format"]):
        answer = one["json_format"]
        assert all((answer["code"], answer["message"], answer["details"][0]["reason"]))
    silent = [mapper for mapper in replies["mappers"] if "extension_filter" in mapper["filter"]]
    assert [(one["filter"]["extension_filter"]["typed_config"]["expression"], one["status_code"]) for one in silent] == [
        ("response.code_details == 'path_normalization_failed'", 400),
        ("response.code_details == 'query_missing_content_type'", 405),
    ]


def test_what_waits_in_its_buffers_is_bounded_for_all_together():
    overload = made()["overload_manager"]
    heap = next(one for one in overload["resource_monitors"] if one["name"].endswith("fixed_heap"))["typed_config"]
    assert heap["max_heap_size_bytes"] == 1024**3
    (action,) = overload["actions"]
    assert (action["name"], action["triggers"][0]["threshold"]) == (
        "envoy.overload_actions.stop_accepting_requests",
        {"value": 0.9},
    )


def test_only_calls_of_the_local_socket_are_marked_as_such_whatever_the_caller_sends():
    config = made()
    public, local = manager(config, 0)["route_config"], manager(config, 1)["route_config"]
    assert public["request_headers_to_remove"] == ["headrace-local"]
    assert "request_headers_to_add" not in public
    (added,) = local["request_headers_to_add"]
    assert added == {"header": {"key": "headrace-local", "value": "1"}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}
    assert public["virtual_hosts"] == local["virtual_hosts"]


def test_strangers_who_use_up_connections_or_memory_do_not_keep_the_owner_out():
    local = made()["static_resources"]["listeners"][1]
    assert (local["ignore_global_conn_limit"], local["bypass_overload_manager"]) == (True, True)
