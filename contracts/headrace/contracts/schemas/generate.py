"""The generated descriptions of everything on the bus, for readers without Python: JSON Schemas and one AsyncAPI document.

`python -m headrace.contracts.schemas` writes them to `contracts/schemas/`, and the output of `protos` to its package; with
`--check` it names those that are not current and exits 1. All content comes from the modules of subjects, structs and writers.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from headrace.contracts import facts
from headrace.contracts.documents.model import Documents
from headrace.contracts.facts import fact_type
from headrace.contracts.facts.records import RECORD_BYTES_MAX, RECORD_FACTS_MAX, Record
from headrace.contracts.facts.writers import NODE, SERVICES, WRITER_RULES
from headrace.contracts.messages import (
    audit,
    burst,
    explanation,
    orders,
    queries,
    submissions,
    tokens,
    trials,
    usage,
    utilization,
)
from headrace.contracts.schemas import protos
from headrace.contracts.schemas.rule_links import with_linked_descriptions
from headrace.contracts.transport import subjects

Schema = dict[str, Any]

FOLDER = Path(__file__).parents[3] / "schemas"
API = "contracts/headrace/contracts/api"
FACT_TYPES: tuple[type[facts.Fact], ...] = get_args(facts.AnyFact)

PLAIN = (
    ("submissions", submissions),
    ("orders", orders),
    ("queries", queries),
    ("queries", audit),
    ("queries", burst),
    ("queries", explanation),
    ("queries", tokens),
    ("queries", trials),
    ("queries", usage),
    ("queries", utilization),
)
"""Modules of messages that are not facts, and the folder of their schemas."""

_COMPONENTS = "#/components/schemas/"
_PARAMETER = re.compile(r"\{(\w+)\}")
_TOKEN_TEXT = "1 to 63 of a-z, 0-9 and '-'"  # noqa: S105  # a token is one part of a subject, not a secret


def generate() -> dict[str, str]:
    """The text of every generated file, by its path below `contracts/schemas/`."""
    described: dict[str, object] = {f"facts/{fact_type(kind)}.json": kind for kind in FACT_TYPES}
    described["record.json"] = Record
    described["documents.json"] = Documents
    for folder, module in PLAIN:
        described |= {f"{folder}/{_dashed(kind.__name__)}.json": kind for kind in _structs(module)}
    files = {path: _text(msgspec.json.schema(kind, schema_hook=_anything)) for path, kind in described.items()}
    return files | {"asyncapi.json": _text(asyncapi())}


def stale(written: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """Why `written` differs from `current`, one line per file; empty if it does not."""
    missing = [f"{path} is missing" for path in current.keys() - written.keys()]
    left = [f"{path} describes something that no longer exists" for path in written.keys() - current.keys()]
    changed = [f"{path} is not current" for path in current.keys() & written.keys() if current[path] != written[path]]
    return sorted(missing + left + changed)


def asyncapi() -> Schema:
    """The bus as AsyncAPI 3: channels, messages, and for each writer the records that it alone may publish."""
    channels = {**_plain_channels(), "ledger": _ledger_channel((*SERVICES,)), "node-ledger": _ledger_channel((NODE,))}
    kinds: list[Any] = [Record, *FACT_TYPES, *(kind for _, module in PLAIN for kind in _structs(module))]
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_COMPONENTS + "{name}", schema_hook=_anything)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Headrace bus",
            "version": "1",
            "description": "Every subject, what is said there, and who may say it. Generated; the words are those of headrace.contracts.",
            "license": {"name": "Apache-2.0"},
        },
        "defaultContentType": "application/json",
        "channels": channels,
        "operations": _operations(channels),
        "components": {"schemas": schemas},
    }


def _plain_channels() -> Schema:
    requests: list[type[msgspec.Struct]] = [
        *(usage.UsageRequest, usage.StatementRequest, utilization.UtilizationRequest, audit.AuditRequest, trials.TrialRequest),
        *(queries.ClaimRequest, tokens.StorageReport, tokens.PauseRequest, burst.InstanceTokenRequest, burst.JoinRequest),
    ]
    return {
        "submit": _channel(
            subjects.submit("{tenant}", "{user}", "{policy}", "{profile}"),
            [submissions.JobSubmission, submissions.JobSubmissions],
        ),
        "cancel": _channel(subjects.cancel("{tenant}", "{user}", "{job}"), [submissions.CancelRequest]),
        "cancel-many": _channel(subjects.cancel_many("{tenant}", "{user}"), [submissions.CancelManyRequest]),
        "requeue": _channel(subjects.requeue("{tenant}", "{user}", "{job}"), [submissions.RequeueRequest]),
        "feed": _channel(subjects.feed("{tenant}", "{noun}", "{verb}", "{id}"), FACT_TYPES),
        "orders": _channel(subjects.orders("{node}"), [orders.Orders]),
        "node-logs": _channel(subjects.node_logs("{node}"), [orders.LogsRequest, queries.LogsAnswer]),
        "heartbeat": _channel(subjects.telemetry("{node}", "heartbeat"), [orders.Heartbeat]),
        "samples": _channel(subjects.telemetry("{node}", "samples"), [orders.Samples]),
        "query": _channel(subjects.query("{service}", "{what}", "{tenant}", "{user}"), [*requests, queries.Answer]),
        "presence": _channel(subjects.presence("{service}"), [queries.Presence]),
        "node-query": _channel(subjects.node_query("{node}"), [orders.NodeAnswer]),
    }


_PASSED_ON = "that user or service account; admission or governance passes it on without its headers"
_PUBLISHERS = {
    "submit": _PASSED_ON,
    "cancel": _PASSED_ON,
    "cancel-many": _PASSED_ON,
    "requeue": _PASSED_ON,
    "feed": "feed",
    "orders": "feed",
    "node-logs": "feed asks, that node answers",
    "heartbeat": "that node",
    "presence": "that service",
    "samples": "that node",
    "query": "that user asks, the service answers",
    "node-query": "that node asks, feed answers",
}


def _ledger_channel(writers: tuple[str, ...]) -> Schema:
    address = subjects.ledger(subjects.node_writer("{node}") if writers == (NODE,) else "{service}")
    channel = _channel(address, [])
    channel["messages"] = {f"record-of-{writer}": _record_message(writer) for writer in writers}
    if writers != (NODE,):
        channel["parameters"]["service"] = {"enum": list(writers)}
    return channel


def _record_message(writer: str) -> Schema:
    stated = [{"$ref": _COMPONENTS + rule.fact.__name__} for rule in WRITER_RULES if rule.writer == writer]
    return {
        "title": f"A record of {writer}",
        "summary": f"One decision, all or nothing: at most {RECORD_FACTS_MAX} facts and {RECORD_BYTES_MAX} bytes.",
        "payload": {
            "allOf": [
                {"$ref": _COMPONENTS + "Record"},
                {"properties": {"facts": {"type": "array", "items": {"oneOf": stated}, "maxItems": RECORD_FACTS_MAX}}},
            ]
        },
    }


def _operations(channels: Schema) -> Schema:
    operations: Schema = {}
    for name, publisher in _PUBLISHERS.items():
        operations[f"publish-{name}"] = {
            "action": "send",
            "channel": {"$ref": f"#/channels/{name}"},
            "summary": f"May publish: {publisher}.",
        }
    for name in ("ledger", "node-ledger"):
        for message in channels[name]["messages"]:
            writer = message.removeprefix("record-of-")
            laws = [rule for rule in WRITER_RULES if rule.writer == writer]
            operations[f"state-as-{writer}"] = {
                "action": "send",
                "channel": {"$ref": f"#/channels/{name}"},
                "messages": [{"$ref": f"#/channels/{name}/messages/{message}"}],
                "summary": f"May publish: {'that node' if writer == NODE else writer}, conditional on its own last record.",
                "x-laws": [{"fact": fact_type(rule.fact), "about": rule.about, "state": rule.states} for rule in laws],
            }
    return operations


def _channel(address: str, kinds: Iterable[type[msgspec.Struct]]) -> Schema:
    messages = {
        kind.__name__: {"summary": _first_line(kind), "payload": {"$ref": _COMPONENTS + kind.__name__}} for kind in kinds
    }
    parameters = {name: {"description": _TOKEN_TEXT} for name in _PARAMETER.findall(address)}
    return {"address": address, "parameters": parameters, "messages": messages}


def _structs(module: object) -> list[type[msgspec.Struct]]:
    """The structs defined in a module, in the order of its text."""
    name = getattr(module, "__name__", "")
    members = vars(module).values()
    return [kind for kind in members if inspect.isclass(kind) and issubclass(kind, msgspec.Struct) and kind.__module__ == name]


def _anything(kind: type) -> Schema:
    """The schema of a type without a schema of its own: `object` is any JSON value."""
    if kind is object:
        return {"description": "any JSON value"}
    raise TypeError(f"{kind} has no JSON Schema")


def _first_line(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def _dashed(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()


def _text(schema: Schema) -> str:
    return msgspec.json.format(msgspec.json.encode(with_linked_descriptions(_cleaned(schema))), indent=2).decode() + "\n"


def _cleaned(part: Any) -> Any:
    """The schema with docstrings as every version of Python reports them: 3.13 began to strip their indentation."""
    if isinstance(part, dict):
        return {
            key: inspect.cleandoc(value) if key == "description" and isinstance(value, str) else _cleaned(value)
            for key, value in part.items()
        }
    return [_cleaned(element) for element in part] if isinstance(part, list) else part


def main(arguments: list[str] | None = None, folder: Path = FOLDER, code: Path = protos.CODE) -> int:
    """Write the files, or with `--check` compare only; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m headrace.contracts.schemas", description="Write or check the generated files."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and name what is not current")
    check = parser.parse_args(arguments).check
    described = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.json")}
    try:
        places = ((folder, "contracts/schemas", described, generate()), (code, API, protos.written(code), protos.generate()))
    except protos.ProtosBroken as error:
        print(f"contracts/proto: {error}", file=sys.stderr)
        return 1
    reasons = [f"{name}/{reason}" for _, name, written, current in places for reason in stale(written, current)]
    if check:
        for reason in reasons:
            print(f"{reason}; run: make schemas", file=sys.stderr)
        return 1 if reasons else 0
    for place, _, written, current in places:
        _write(place, written, current)
    print(f"{sum(len(current) for _, _, _, current in places)} generated files, {len(reasons)} of them new or changed")
    return 0


def _write(folder: Path, written: Mapping[str, str], current: Mapping[str, str]) -> None:
    for path in written.keys() - current.keys():
        (folder / path).unlink()
    for path, text in current.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, "utf-8")
