"""Errors and warnings of a set of documents: one line each, with the place, the problem, and the way out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from headrace.contracts.documents.tree import path_text
from headrace.governance.objects import ObjectName, PlacedDocument

NAMES_SHOWN = 8
NAME_MAX = 80
"""Maximum characters shown of a name that may be misspelt."""


class Diagnostics:
    """Errors and warnings of a set of documents. Objects outside the set are named instead of located."""

    def __init__(self, documents: Iterable[PlacedDocument] = ()) -> None:
        self.places: Mapping[ObjectName, tuple[str | int, ...]] = {name: place for name, _, place in documents}
        self.errors: list[str] = []
        self.warnings: list[str] = []

    def where(self, name: ObjectName, *part: str | int) -> str:
        """Path in the set, such as `policies[0].limit.gpu`; for an object outside it, `policy acme/ai-dev: limit.gpu`."""
        place = self.places.get(name)
        if place is not None:
            return path_text((*place, *part))
        return f"{name}: {path_text(part)}" if part else str(name)

    def error(self, where: str, message: str) -> None:
        """Add an error: the set cannot be applied."""
        self._note(self.errors, f"{where}: {message}")

    def warn(self, where: str, token: str, message: str) -> None:
        """Add a warning: the set can be applied, but has probably another effect than intended. `token` is stable."""
        self._note(self.warnings, f"{where}: {token}: {message}")

    @staticmethod
    def _note(lines: list[str], line: str) -> None:
        if line not in lines:
            lines.append(line)


def unknown(kind: str, text: str, known: Iterable[str], none: str = "there is nothing of this kind") -> str:
    """Message for an unknown name, such as `there is no group ai-devs; did you mean ai-dev?`. `none`: the hint if no name is known."""
    there_are = sorted(known)
    same_name = [name for name in there_are if name.rpartition("/")[2] == text.rpartition("/")[2]]
    close = same_name or get_close_matches(text[:NAME_MAX], there_are, n=1)
    if close:
        hint = f"did you mean {close[0]}?"
    elif there_are:
        hint = f"there {'is' if len(there_are) == 1 else 'are'} {listed(there_are)}"
    else:
        hint = none
    return f"there is no {kind} {shown(text)}; {hint}"


def shown(text: str) -> str:
    """Text from outside, shortened and quoted if needed, for use in one line."""
    cut = text[:NAME_MAX]
    return cut if cut.isprintable() else repr(cut)


def listed(texts: Iterable[str]) -> str:
    """The first texts, and the number of further ones."""
    everything = list(texts)
    shown, more = everything[:NAMES_SHOWN], len(everything) - NAMES_SHOWN
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
