"""Writes documents as people do: the inverse of `reader`, through the same tables. Defaults are left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.documents.reader import DOCUMENTS, SHAPES

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Document, Documents


def write_documents(documents: Documents) -> dict[str, object]:
    """A whole set, as in a file: text, numbers, flags, lists and mappings."""
    return DOCUMENTS.write_whole(documents)


def write_document(document: Document) -> dict[str, object]:
    """One document, as in its list. Raises TypeError for a part of a document."""
    for shape in SHAPES.values():
        if type(document) is shape.kind:
            return shape.write_whole(document)
    raise TypeError(f"{type(document).__name__} is not a kind of document")
