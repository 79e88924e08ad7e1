"""Requests made up from an OpenAPI document, right and wrong ones; and what an answer has to be whatever was asked."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from hypothesis import strategies as st

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
TEXTS = st.sampled_from(
    ["", "0", "-1", "acme", "hq", "dev", "half", "\x00", "é", "a" * 300, "../x", "gpu", "1/7", "10m", "*", '"', "{}"]
)


class Request(NamedTuple):
    """One made-up request."""

    verb: str
    path: str
    query: dict[str, str]
    body: Any


class Maker:
    """Strategies over one document."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.operations = [
            (verb, path, operation)
            for path, verbs in sorted(document["paths"].items())
            for verb, operation in sorted(verbs.items())
            if not path.endswith(":watch")
        ]

    def requests(self) -> st.SearchStrategy[Request]:
        """Any operation, with parameters and a body that fit or do not."""
        return st.sampled_from(self.operations).flatmap(lambda one: self._request(*one))

    def _request(self, verb: str, path: str, operation: dict[str, Any]) -> st.SearchStrategy[Request]:
        parts = re.findall(r"\{(\w+)\}", path)
        inside = st.fixed_dictionaries(
            {part: st.sampled_from(["acme", "dev", "half", "hq", "x", "0", "A", "%00"]) for part in parts}
        )
        queries = {
            one["name"]: self._value(one["schema"]).map(str) | TEXTS for one in operation["parameters"] if one["in"] == "query"
        }
        query = st.fixed_dictionaries({}, optional=queries)
        body: st.SearchStrategy[Any] = st.none()
        if "requestBody" in operation:
            schema = operation["requestBody"]["content"]["application/json"]["schema"]
            body = st.one_of(self._value(schema), self._value(schema), JUNK)
        return st.builds(
            lambda where, asked, sent: Request(verb.upper(), re.sub(r"\{(\w+)\}", lambda m: where[m[1]], path), asked, sent),
            inside,
            query,
            body,
        )

    def _value(self, schema: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
        if "$ref" in schema:
            return self._value(self._named(schema["$ref"]), depth)
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        match schema.get("type"):
            case "boolean":
                return st.booleans()
            case "integer":
                return st.integers(schema.get("minimum", -9), schema.get("maximum", 9))
            case "array":
                return st.lists(self._value(schema["items"], depth + 1), max_size=2)
            case "object" if depth > 4:
                return st.just({})
            case "object" if "properties" in schema:
                fields = {name: self._value(one, depth + 1) for name, one in schema["properties"].items()}
                return st.fixed_dictionaries({}, optional=fields) | st.fixed_dictionaries(
                    {}, optional=fields | {"surprise": JUNK}
                )
            case "object":
                inner = schema.get("additionalProperties")
                return st.dictionaries(TEXTS, self._value(inner, depth + 1) if isinstance(inner, dict) else JUNK, max_size=2)
        return TEXTS if schema.get("format") != "date-time" else st.sampled_from(["2026-11-21T08:00:00Z", "x", "9999-99-99"])

    @staticmethod
    def is_path(template: str, path: str) -> bool:
        """Whether a path is one of a template."""
        return re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/:]+", re.escape(template)), path) is not None

    def _named(self, reference: str) -> dict[str, Any]:
        found: dict[str, Any] = self.document["components"]["schemas"][reference.rpartition("/")[2]]
        return found

    def schema_errors(self, value: Any, schema: dict[str, Any], at: str = "") -> list[str]:
        """Where an answer is not what its schema says."""
        if "$ref" in schema:
            return self.schema_errors(value, self._named(schema["$ref"]), at)
        kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int}
        kind = kinds.get(schema.get("type", ""))
        if kind is not None and not isinstance(value, kind):
            return [f"{at}: {value!r} is no {schema['type']}"]
        if "enum" in schema and value not in schema["enum"]:
            return [f"{at}: {value!r} is none of {schema['enum']}"]
        if isinstance(value, list):
            return [
                text for index, one in enumerate(value) for text in self.schema_errors(one, schema["items"], f"{at}[{index}]")
            ]
        if not isinstance(value, dict) or schema.get("additionalProperties") is True:
            return []
        found: list[str] = []
        for key, one in value.items():
            inner = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
            found += (
                self.schema_errors(one, inner, f"{at}.{key}")
                if isinstance(inner, dict)
                else [f"{at}.{key} is unknown"] * ("properties" in schema)
            )
        return found
