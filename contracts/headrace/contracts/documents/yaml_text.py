"""YAML text into a tree and back. All scalars are read as text; what could hide a mistake or exhaust memory is refused.

Strategy: the parser's events are taken one by one onto a stack of open collections, so that neither deep nesting (recursion) nor
aliases of aliases (size) can exhaust the process, and every key is seen with its line: duplicates are errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import yaml

from headrace.contracts.documents.tree import DEPTH_MAX, DocumentError, DocumentErrors, Path, Tree, join_trees, path_text

if TYPE_CHECKING:
    from collections.abc import Mapping

TEXT_MAX = 8 * 1024 * 1024
VALUES_MAX = 500_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_tree(text: str) -> Tree:
    """The tree in a YAML (or JSON) text; several documents in one text are joined. Raises DocumentErrors if malformed."""
    if len(text) > TEXT_MAX:
        raise DocumentErrors([DocumentError("", None, f"a file is at most {TEXT_MAX} characters, this has {len(text)}")])
    building = _Building()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            building.take(event)
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise DocumentErrors([*building.errors, DocumentError("", line, _syntax(error))]) from None
    except yaml.reader.ReaderError as error:
        line = text.encode("utf-8", "replace")[: error.position].count(b"\n") + 1
        code = error.character if isinstance(error.character, int) else ord(error.character[:1])
        message = f"malformed YAML: the character {code:#06x} is not allowed; is this a text file?"
        raise DocumentErrors([*building.errors, DocumentError("", line, message)]) from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise DocumentErrors([DocumentError("", None, "malformed YAML: " + " ".join(str(error).split()))]) from None
    if building.errors:
        raise DocumentErrors(building.errors)
    if not building.roots:
        raise DocumentErrors([DocumentError("", None, "the file is empty; write a mapping such as policies: [...]")])
    return join_trees(building.roots)


def write_yaml(value: Mapping[str, object]) -> str:
    """`value` as block-style YAML that `read_tree` reads back as the same text, keys in the given order."""
    return yaml.dump(dict(value), Dumper=_PlainDumper, sort_keys=False, allow_unicode=True, width=120)


def _syntax(error: yaml.MarkedYAMLError) -> str:
    parts = [part for part in (error.problem, error.context) if part]
    return "malformed YAML: " + (" ".join(", ".join(parts).split()) or "it could not be read")


class _PlainDumper(yaml.SafeDumper):
    """Writes scalars without quotes if the structure stays unambiguous: the reader takes every scalar as text anyway."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # the signature is PyYAML's
        """Equal parts are written out each time."""
        return True


def _as_plain(dumper: _PlainDumper, value: object) -> yaml.Node:
    text = {True: "true", False: "false", None: "null"}[value] if value is None or isinstance(value, bool) else str(value)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text)


_PlainDumper.yaml_implicit_resolvers = {}
for _kind in (str, int, bool, type(None)):
    _PlainDumper.add_representer(_kind, _as_plain)


class _Anchored(NamedTuple):
    value: object
    size: int


class _Open:
    """An open collection. `key` is the one whose value comes next."""

    def __init__(self, value: dict[str, object] | list[object], path: Path, anchor: str | None, first: int) -> None:
        self.value = value
        self.path = path
        self.anchor = anchor
        self.first = first
        self.key: str | None = None
        self.key_line = 0


class _Building:
    """The trees so far. `roots` are complete once all events are taken; `errors` are those after which reading can continue."""

    def __init__(self) -> None:
        self.roots: list[Tree] = []
        self.errors: list[DocumentError] = []
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchored | None] = {}
        self._lines: dict[Path, int] = {}
        self._count = 0

    def take(self, event: yaml.Event) -> None:
        """Process the next event of the parser."""
        line = event.start_mark.line + 1 if event.start_mark else 0
        match event:
            case yaml.DocumentStartEvent():
                self._anchors, self._lines = {}, {}
            case yaml.ScalarEvent():
                self._refuse_tag(event.tag if not any(event.implicit) else None, line)
                self._scalar(event.value, line, plain=not event.style)
                if event.anchor:
                    self._anchors[event.anchor] = _Anchored(event.value, 1)
            case yaml.AliasEvent():
                self._alias(event.anchor or "", line)
            case yaml.CollectionStartEvent():
                self._refuse_tag(event.tag if not event.implicit else None, line)
                self._begin({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor, line)
            case yaml.CollectionEndEvent():
                ended = self._open.pop()
                if ended.anchor:
                    self._anchors[ended.anchor] = _Anchored(ended.value, self._count - ended.first)

    def _refuse_tag(self, tag: str | None, line: int) -> None:
        if tag is not None and tag != "!":
            raise self._stop(line, f"the tag {tag} has no meaning here; leave it out")

    def _stop(self, line: int, message: str) -> DocumentErrors:
        where = path_text(self._open[-1].path) if self._open else ""
        return DocumentErrors([*self.errors, DocumentError(where, line, message)])

    def _scalar(self, text: str, line: int, *, plain: bool) -> None:
        parent = self._open[-1] if self._open else None
        if parent is not None and isinstance(parent.value, dict) and parent.key is None:
            if text in parent.value:
                first = self._lines[(*parent.path, text)]
                self.errors.append(DocumentError(path_text((*parent.path, text)), line, f"this key is on line {first} already"))
            parent.key, parent.key_line = text, line
        elif parent is not None or text or not plain:  # an empty document is skipped
            self._place(text, line)

    def _alias(self, anchor: str, line: int) -> None:
        anchored = self._anchors.get(anchor)
        if anchored is None:
            known = "contains itself" if anchor in self._anchors else "names no anchor"
            raise self._stop(line, f"the alias *{anchor} {known}")
        self._count += anchored.size - 1
        self._place(anchored.value, line)

    def _begin(self, value: dict[str, object] | list[object], anchor: str | None, line: int) -> None:
        first = self._count
        if len(self._open) >= DEPTH_MAX:
            raise self._stop(line, f"this is nested deeper than {DEPTH_MAX} levels")
        self._open.append(_Open(value, self._place(value, line), anchor, first))
        if anchor:
            self._anchors[anchor] = None

    def _place(self, value: object, line: int) -> Path:
        """Put a value into the open collection; returns its path."""
        self._count += 1
        if self._count > VALUES_MAX:
            raise self._stop(line, f"a file is at most {VALUES_MAX} values, aliases counted as what they stand for")
        parent = self._open[-1] if self._open else None
        path: Path
        if parent is None:
            if not isinstance(value, dict):
                raise self._stop(line, "write a mapping such as policies: [...] at the top of the file")
            self.roots.append(Tree(value, self._lines))
            path = ()
        elif isinstance(parent.value, list):
            path = (*parent.path, len(parent.value))
            parent.value.append(value)
        elif parent.key is None:
            raise self._stop(line, "a key is plain text, not a collection")
        else:
            path = (*parent.path, parent.key)
            line = parent.key_line
            parent.value.setdefault(parent.key, value)
            parent.key = None
        self._lines.setdefault(path, line)
        return path
