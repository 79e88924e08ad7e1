"""The command line of a measurement: its help says what is measured, what can be chosen, and about how long it takes."""

from __future__ import annotations

import argparse
from typing import Any


class _Help(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description, and adds the default to the help of an option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help or ""
        if action.default in (None, False, argparse.SUPPRESS) or "default" in text:
            return text
        default = " ".join(map(str, action.default)) if isinstance(action.default, list | tuple) else action.default
        return f"{text} (default: {default})".replace("%", "%%").replace("%%%%", "%%")


class _Parser(argparse.ArgumentParser):
    """Refuses negative numbers: no measurement has a use for them."""

    def parse_known_args(self, *args: Any, **kwargs: Any) -> Any:
        found, rest = super().parse_known_args(*args, **kwargs)
        for action in self._actions:
            value = getattr(found, action.dest, None)
            for one in value if isinstance(value, list) else (value,):
                if action.type in (int, float) and one is not None and one < 0:
                    self.error(f"argument {'/'.join(action.option_strings) or action.dest}: {one} is negative")
        return found, rest


def options(module: str, doc: str | None, takes: str) -> argparse.ArgumentParser:
    """The parser of a module that is run as `python -m`. `doc`: what it measures; `takes`: how long, on two quiet cores."""
    return _Parser(
        prog=f"python -m {module}",
        description=(doc or "").strip(),
        epilog=f"It takes {takes} on two quiet cores.",
        formatter_class=_Help,
    )
