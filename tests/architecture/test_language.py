"""The language of the source (docs/contributing.md, Style): sentences of docstrings, comments and messages, and names."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable
from functools import cache
from typing import Any

from tests.architecture.tree import files, parsed, sources, text

CLEAN: tuple[str, ...] = (
    "accounting/",
    "admission/",
    "allocator/",
    "archive/",
    "audit/",
    "bus/",
    "callout/",
    "cli/",
    "client/",
    "contracts/",
    "demo/",
    "domain/",
    "feed/",
    "governance/",
    "health/",
    "identity/",
    "kubernetes/",
    "nats_client/",
    "node_executor/",
    "preemption/",
    "provisioner/",
    "service/",
    "simulate/",
    "supervisor/",
    "views/",
)
"""Folders below `headrace/` that were rewritten. A folder is added when it is, and none is taken out."""

IDIOMS = re.compile(
    r"(?<!-)\b(nobody|somebody|anybody|everybody|whoever|whomever|so many|such an?|of which|none where|where there is none"
    r"|(?:is|are|was|were) none|(?<!there )(?:is|are|was|were) no(?! longer| more)|he|she|him|his|hers?)\b",
    re.IGNORECASE,
)
"""Signs of a sentence to write again: it says who or what is not there instead of what is the case, or hides its subject."""

STORED = re.compile(
    "is no whole number of GPUs|nobody here holds borrowed units|names a job of somebody else in this tenant|its provider is none"
)
"""Texts of facts in stored ledgers, which an audit compares byte for byte."""

RETIRED = {
    *(
        "strand",
        "shelf",
        "shelves",
        "shelve",
        "yielder",
        "yielders",
        "footing",
        "untold",
        "happenings",
        "aftermath",
        "toll",
        "roster",
    ),
    *(
        "nursery",
        "canary",
        "tenure",
        "abreast",
        "outlet",
        "office",
        "elsewhere",
        "mending",
        "stretches",
        "takings",
        "honourable",
        "wish",
        "wishes",
        "wished",
        "nudge",
    ),
    *("told", "said", "heard", "tell", "tells", "hear", "hears", "room", "rooms"),
}
"""Words of names that were replaced by terms of the field (docs/contributing.md)."""

PUBLIC = {"untold", "wish", "WishRefusedV1", "WishesJudgedV1", "_wish_refused", "_wishes_judged", "heard_at", "last_heard"}
"""Names of facts, of fields of messages and of stored rows, and of what handles them: an interface, whose names stay."""

WORDS_MIN = 4

DEFINITIONS = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def is_clean(path: str) -> bool:
    return path.partition("/headrace/")[2].startswith(CLEAN)


CHECKED = [path for path in sources() if is_clean(path)]
TESTS = [path for path in files() if path.startswith(("tests/", "bench/")) and path.endswith(".py")]


def comments_and_texts(source: str) -> list[tuple[int, str]]:
    """Comments and texts of a file, each with its line; texts without white space are names or codes."""
    kinds = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [(token.start[0], token.string) for token in tokens if token.type in kinds and " " in token.string]


def findings(paths: list[str], find: Callable[[str], list[Any]]) -> dict[str, list[Any]]:
    """What `find` finds in each file, without files in which it finds nothing. A test for each file would take longer than its check."""
    return {path: found for path in paths if (found := find(path))}


def idioms(texts: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Idioms in texts, each with its line."""
    return [(line, match.group()) for line, sentence in texts for match in IDIOMS.finditer(sentence)]


def test_sentences_say_what_is_the_case() -> None:
    def find(path: str) -> list[tuple[int, str]]:
        if not IDIOMS.search(text(path)):
            return []  # to split a file into tokens takes longer
        return idioms([(line, STORED.sub("", sentence)) for line, sentence in comments_and_texts(text(path))])

    assert findings(CHECKED, find) == {}, "write the sentence again: what is it, or what does it return?"


def test_docstrings_say_more_than_the_name() -> None:
    def find(path: str) -> list[str]:
        documented = [(node.name, ast.get_docstring(node)) for node in ast.walk(parsed(path)) if isinstance(node, DEFINITIONS)]
        return [name for name, sentence in documented if sentence is not None and len(sentence.split()) < WORDS_MIN]

    assert findings(CHECKED, find) == {}


@cache
def named(path: str) -> list[str]:
    """Names of classes, functions, parameters and variables of a file."""
    names = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, DEFINITIONS):
            names.append(node.name)
        elif isinstance(node, ast.arg):
            names.append(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
    return names


def retired(names: list[str]) -> list[str]:
    """Those that contain a retired word."""
    words = {name: set(re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())) for name in names}
    return sorted(name for name, parts in words.items() if parts & RETIRED and name not in PUBLIC)


def test_names_are_terms_of_the_field() -> None:
    assert findings(CHECKED, lambda path: retired(named(path))) == {}


def explained(path: str) -> list[tuple[int, str]]:
    """Docstrings and comments of a file, each with its line. Other texts of a test are its data."""
    documented = [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Module | DEFINITIONS)]
    found = [(node.body[0].lineno, sentence) for node in documented if (sentence := ast.get_docstring(node)) is not None]
    tokens = tokenize.generate_tokens(io.StringIO(text(path)).readline)
    return found + [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]


def test_tests_explain_themselves_plainly() -> None:
    assert findings(TESTS, lambda path: idioms(explained(path)) if IDIOMS.search(text(path)) else []) == {}


def test_scenarios_explain_themselves_plainly() -> None:
    def find(path: str) -> list[tuple[int, str]]:
        lines = enumerate(text(path).splitlines(), 1)
        name = path.rpartition("/")[2].removesuffix(".yaml").replace("_", " ")
        return idioms([(0, name), *((number, line) for number, line in lines if line.lstrip().startswith("#"))])

    scenarios = [path for path in files() if path.startswith("tests/scenarios/") and path.endswith(".yaml")]
    assert findings(sorted(scenarios), find) == {}


def test_names_of_tests_are_sentences_of_plain_words() -> None:
    def find(path: str) -> list[str]:
        return [name for name in named(path) if name.startswith("test_") and IDIOMS.search(name.replace("_", " "))]

    assert findings(TESTS, find) == {}, "say who or what it is"


def test_names_in_tests_are_terms_of_the_field() -> None:
    assert findings(TESTS, lambda path: retired([name for name in named(path) if not name.startswith("test_")])) == {}
