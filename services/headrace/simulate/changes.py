"""Changes of a what-if: documents, nodes, hypothetical jobs and deletions, as in a file for `headrace whatif -f`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.documents.forms import Several, Shape, read_as
from headrace.contracts.documents.model import Documents
from headrace.contracts.documents.reader import DOCUMENTS
from headrace.simulate.scenario import DELETE, NODES, SUBMIT, Delete, Nodes, ScenarioPart, Submit, check_new_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.documents.forms import Complaint
    from headrace.contracts.documents.tree import Tree


class WhatIfChanges(ScenarioPart, frozen=True, kw_only=True):
    """The changes of one file."""

    documents: Documents = Documents()
    nodes: tuple[Nodes, ...] = ()
    submit: tuple[Submit, ...] = ()
    delete: tuple[Delete, ...] = ()


class _File(Documents, frozen=True, kw_only=True):
    """A file as it is written: the documents, and the other changes."""

    nodes: tuple[Nodes, ...] = ()
    submit: tuple[Submit, ...] = ()
    delete: tuple[Delete, ...] = ()


def _check(file: _File) -> Iterator[Complaint]:
    """Names are unique, and something is changed."""
    nodes: set[str] = set()
    jobs: set[str] = set()
    for place, row in enumerate(file.nodes):
        yield from check_new_names("node", row, nodes, ("nodes", place, "name"))
    for place, job in enumerate(file.submit):
        yield from check_new_names("job", job, jobs, ("submit", place, "name"))
    if not any(getattr(file, name) for name in file.__struct_fields__):
        yield (), f"nothing is changed; write one of {', '.join(file.__struct_fields__)}"


_FILE = Shape(
    _File,
    {**DOCUMENTS.forms, "nodes": Several(NODES), "submit": Several(SUBMIT), "delete": Several(DELETE)},
    check=_check,
)


def read_changes(tree: Tree) -> WhatIfChanges:
    """Read the changes in a tree. Raises `DocumentErrors` with all errors, each with its line."""
    file = read_as(_FILE, tree)
    documents = Documents(**{name: getattr(file, name) for name in Documents.__struct_fields__})
    return WhatIfChanges(documents=documents, nodes=file.nodes, submit=file.submit, delete=file.delete)
