"""Putting something in place of a piece of the product, for a test or a comparison, and making sure that the product uses it.

A comparison whose replacement is not called compares the product with itself, and a test proves nothing. Three causes are errors here:
the piece is compiled (machine code calls its own functions directly and never looks at what a class or module was given later), nothing
reads the name where it was replaced (it was imported by name into other modules, or bound before), or it was simply never called.
"""

from __future__ import annotations

import ast
import functools
import inspect
import pkgutil
import sys
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MISSING = object()


class NotReachedError(AssertionError):
    """The product does not use what was put in place of one of its pieces."""


def is_compiled(owner: object) -> bool:
    """Whether a module, or the module of a class or an instance, is machine code."""
    module = _module_of(owner)
    return module is not None and str(getattr(module, "__file__", "")).endswith(tuple(EXTENSION_SUFFIXES))


def check(owner: object, name: str) -> None:
    """Raise NotReachedError where the product would not see that this attribute is replaced. What is not the product's always passes."""
    module = _module_of(owner)
    if module is None or not module.__name__.startswith("headrace."):
        return
    if is_compiled(owner):
        raise NotReachedError(
            f"{module.__name__} is machine code, which does not see that {_named(owner)}.{name} is replaced: "
            "run this with the rules as they are written (.venv, or HEADRACE_AS_WRITTEN=1 for a benchmark)"
        )
    if owner is module and name not in _read_inside(module) and not _is_read_outside(module, name):
        raise NotReachedError(
            f"nothing in {module.__name__} reads {name} when it is called, so replacing it there changes nothing: "
            "replace it in the module that uses it"
        )


def counted(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[int]]:
    """The function, and a list whose one number is how often it was called."""
    calls = [0]
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def later(*given: Any, **named: Any) -> Any:
            calls[0] += 1
            return await function(*given, **named)

        return later, calls

    @functools.wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        calls[0] += 1
        return function(*given, **named)

    return called, calls


@contextmanager
def replaced(owner: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """While it lasts `owner.name` is this function. Raises NotReachedError where it cannot be, and at the end if nothing has called it."""
    check(owner, name)
    usual = vars(owner)[name]
    instead, calls = counted(function)
    setattr(owner, name, instead)
    try:
        yield
    finally:
        setattr(owner, name, usual)
    if not calls[0]:
        raise NotReachedError(f"nothing has called what was put in place of {_named(owner)}.{name}")


class CheckedPatch(pytest.MonkeyPatch):  # type: ignore[misc]  # final for type checkers only
    """pytest's monkeypatch, which refuses to replace what the product would not see, and knows which functions were never called.

    Calls are counted of what a test function replaces itself: what a fixture replaces for many tests, some of them do not need.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calls: dict[str, list[int]] = {}

    def setattr(self, target: Any, name: Any, value: Any = _MISSING, raising: bool = True) -> None:
        """As pytest's, with the checks."""
        if isinstance(target, str):
            value, (path, _, name) = name, target.rpartition(".")
            target = pkgutil.resolve_name(path)
        check(target, name)
        by_test = sys._getframe(1).f_code.co_name.startswith("test_")
        if by_test and _is_ours(target) and _is_counted(target, name, value):
            value, self._calls[f"{_named(target)}.{name}"] = counted(value)
        super().setattr(target, name, value, raising)

    def never_called(self) -> list[str]:
        """The functions of the product that were replaced, and whose replacements nothing has called."""
        return sorted(name for name, (calls,) in self._calls.items() if not calls)


def _is_counted(owner: object, name: str, value: object) -> bool:
    if isinstance(value, MethodType):
        return not isinstance(owner, type)  # as an attribute of a class it would be bound once more
    return isinstance(value, FunctionType) and isinstance(getattr(owner, name, None), FunctionType | MethodType)


def _is_ours(owner: object) -> bool:
    module = _module_of(owner)
    return module is not None and module.__name__.startswith("headrace.")


def _module_of(owner: object) -> ModuleType | None:
    if isinstance(owner, ModuleType):
        return owner
    return sys.modules.get((owner if isinstance(owner, type) else type(owner)).__module__)


def _named(owner: object) -> str:
    return str(getattr(owner, "__qualname__", getattr(owner, "__name__", type(owner).__name__)))


@functools.cache
def _read_inside(module: ModuleType) -> frozenset[str]:
    """The names that functions of the module look up when they are called. Defaults, and what stands outside, were bound before."""
    functions = [
        node for node in ast.walk(_parsed(module)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    bodies = [
        part for function in functions for part in (function.body if isinstance(function.body, list) else [function.body])
    ]
    return frozenset(node.id for body in bodies for node in ast.walk(body) if isinstance(node, ast.Name))


def _is_read_outside(module: ModuleType, name: str) -> bool:
    """Whether some module that is loaded, of the product or of the tests, reads it as an attribute of this one."""
    for other in list(sys.modules.values()):
        known_as = (
            {key for key, value in list(vars(other).items()) if value is module} if isinstance(other, ModuleType) else set()
        )
        if (
            known_as
            and other is not module
            and not is_compiled(other)
            and (other.__name__, name) in _read_as_attribute(other, frozenset(known_as))
        ):
            return True
    return False


@functools.cache
def _read_as_attribute(other: ModuleType, known_as: frozenset[str]) -> frozenset[tuple[str, str]]:
    try:
        tree = _parsed(other)
    except (OSError, TypeError, SyntaxError):
        return frozenset()
    return frozenset(
        (other.__name__, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in known_as
    )


def _parsed(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))
