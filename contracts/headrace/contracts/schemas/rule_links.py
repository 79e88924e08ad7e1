"""Rules that descriptions cite, as links to the page that states them.

Links are relative to the repository (`docs/rules.md`), because the project does not depend on one host.
"""

from __future__ import annotations

import re
from typing import Any

PAGE = "docs/rules.md"

_CITED = re.compile(r"(?<![\w\[])R([1-9]\d?)\b")


def linked(text: str) -> str:
    """The text with every cited rule (`R16`) as a Markdown link to its heading."""
    return _CITED.sub(rf"[R\1]({PAGE}#r\1)", text)


def with_linked_descriptions(part: Any) -> Any:
    """A JSON document in which the rules that descriptions cite are links."""
    if isinstance(part, dict):
        return {
            key: linked(value) if key == "description" and isinstance(value, str) else with_linked_descriptions(value)
            for key, value in part.items()
        }
    return [with_linked_descriptions(element) for element in part] if isinstance(part, list) else part
