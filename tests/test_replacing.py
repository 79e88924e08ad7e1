"""What replaces a piece of the product is refused where the product would not see it, and missed where nothing calls it."""

from __future__ import annotations

import sys
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType

import pytest

from headrace.domain.indexes import fragmentation, node_classes, shape_buckets
from headrace.domain.placement import placement
from tests.replacing import CheckedPatch, NotReachedError, check, is_compiled, replaced


class TestIsCompiled:
    def test_source_is_not(self):
        assert [is_compiled(one) for one in (placement, node_classes.NodeClass, node_classes.Shapes(), 7)] == [False] * 4

    def test_machine_code_is_and_nothing_of_it_can_be_replaced(self, monkeypatch):
        monkeypatch.setitem(vars(node_classes), "__file__", f"node_classes{EXTENSION_SUFFIXES[0]}")
        assert is_compiled(node_classes.NodeClass)
        for owner, name in ((node_classes.NodeClass, "rating"), (node_classes, "charge"), (node_classes.Shapes(), "fitting")):
            with pytest.raises(NotReachedError, match="is machine code"):
                check(owner, name)
        with pytest.raises(NotReachedError), replaced(node_classes.NodeClass, "rating", lambda *_: (0, 0, 0)):
            pass


class TestNames:
    def test_what_a_function_reads_when_it_is_called_can_be_replaced(self):
        check(shape_buckets, "SLACK")
        check(fragmentation, "_REMEMBERED")

    def test_what_was_imported_into_another_module_is_to_be_replaced_there(self):
        with pytest.raises(
            NotReachedError, match=r"nothing in headrace.domain.indexes.node_classes reads CPU_WEIGHT_IN_ANOTHER"
        ):
            check(node_classes, "CPU_WEIGHT_IN_ANOTHER")

    def test_a_default_was_bound_before(self, monkeypatch):
        module = ModuleType("headrace.made_up")
        text = "LIMIT = 1\ndef ask(limit=LIMIT): return limit\nTWICE = 2 * LIMIT\n"
        exec(text, vars(module))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr("inspect.getsource", lambda _: text)
        with pytest.raises(NotReachedError, match="reads LIMIT"):
            check(module, "LIMIT")
        check(module, "limit")

    def test_what_others_read_as_an_attribute_can_be_replaced(self):
        assert shape_buckets.SLACK  # this is where it is read
        check(shape_buckets, "SLACK")

    def test_what_is_not_of_the_product_may_be_replaced(self):
        check(sys, "nothing_of_this_name")


class TestCalls:
    def test_it_is_there_while_it_lasts_and_gone_afterwards(self):
        usual = placement.model_allowed
        with replaced(placement, "model_allowed", lambda *_: "instead"):
            assert placement.model_allowed("", None) == "instead"
        assert placement.model_allowed is usual

    def test_never_called_is_an_error_and_all_is_as_before(self):
        usual = placement.model_allowed
        with (
            pytest.raises(NotReachedError, match="nothing has called what was put in place of"),
            replaced(placement, "model_allowed", lambda *_: True),
        ):
            pass
        assert placement.model_allowed is usual

    def test_an_error_inside_is_not_hidden(self):
        with pytest.raises(ZeroDivisionError), replaced(placement, "model_allowed", lambda *_: True):
            raise ZeroDivisionError

    async def test_what_a_test_replaces_is_counted_by_name(self):
        patch = CheckedPatch()
        try:
            patch.setattr(placement, "model_allowed", lambda *_: True)
            patch.setattr("headrace.domain.placement.placement.may_hold", lambda *_: True)
            patch.setattr(shape_buckets, "SLACK", 0)
            assert patch.never_called() == [
                "headrace.domain.placement.placement.may_hold",
                "headrace.domain.placement.placement.model_allowed",
            ]
            assert placement.may_hold(None, None, None)
            assert patch.never_called() == ["headrace.domain.placement.placement.model_allowed"]
        finally:
            patch.undo()
