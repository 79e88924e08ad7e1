"""The shared empty table."""

from __future__ import annotations

import pytest

from headrace.domain.model.derived import NOTHING, nothing


def test_the_empty_table_is_shared_and_cannot_be_written_in():
    assert (NOTHING, NOTHING.pop("a", None), nothing() is NOTHING) == ({}, None, True)
    for write in (NOTHING.update, NOTHING.setdefault, NOTHING.__ior__, NOTHING.__setitem__):
        with pytest.raises(TypeError, match="this empty table is shared"):
            write("a", 1)
    assert NOTHING == {}
