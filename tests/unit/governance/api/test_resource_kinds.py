"""What a document may say, the API may say; the rest of `kinds` is seen by tests/integration/test_api.py."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contracts.documents.forms import Several, Shape, Table
from headrace.contracts.documents.reader import SHAPES
from headrace.governance.api.resource_kinds import KINDS

NAMED = {"name", "tenant", "handle"}
"""What stands in a resource's name."""


def unsaid(shape: Shape[Any], message: Any, at: str) -> list[str]:
    """Where a document says what the message has no field for, however deep."""
    found: list[str] = []
    for key, form in shape.forms.items():
        field = message.fields_by_name.get(key)
        if field is None:
            found += [] if key in NAMED else [f"{at}.{key}"]
            continue
        inner, inside = form, field.message_type
        while isinstance(inner, Several | Table):
            inner = inner.form
        if inside is not None and inside.GetOptions().map_entry:
            inside = inside.fields_by_name["value"].message_type
        if isinstance(inner, Shape) and inside is not None:
            found += unsaid(inner, inside, f"{at}.{key}")
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_whatever_a_document_says_the_resource_says(kind):
    assert unsaid(SHAPES[kind.kind], kind.message().DESCRIPTOR, kind.kind) == []
