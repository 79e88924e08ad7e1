"""Write under each rule of `docs/rules.md` the scenarios that show it (`make schemas`)."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/rules.md"
SECTION = re.compile(r"^### R(\d+): .*?(?=^##)", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"\nScenarios: [^\n]*\n")


def linked(page: str) -> str:
    """The page with the line of scenarios of every rule as the folder of scenarios has them."""
    return SECTION.sub(lambda match: _section(match[0], int(match[1])), page)


def _section(text: str, number: int) -> str:
    files = sorted((ROOT / "tests/scenarios").glob(f"R{number:02d}_*.yaml"))
    links = ", ".join(f"[{file.stem[4:].replace('_', ' ')}](../tests/scenarios/{file.name})" for file in files)
    body = LINE.sub("", text).rstrip("\n")
    return f"{body}\n\nScenarios: {links}.\n\n" if files else f"{body}\n\n"


if __name__ == "__main__":
    PAGE.write_text(linked(PAGE.read_text("utf-8")), "utf-8")
