"""The command line of a measurement: its help says what is measured, what can be chosen, and about how long it takes."""

from __future__ import annotations

import argparse


class _Help(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of the description, and adds the default to the help of an option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help or ""
        if action.default in (None, False, argparse.SUPPRESS) or "default" in text:
            return text
        default = " ".join(map(str, action.default)) if isinstance(action.default, list | tuple) else action.default
        return f"{text} (default: {default})".replace("%", "%%").replace("%%%%", "%%")


def options(module: str, doc: str | None, takes: str) -> argparse.ArgumentParser:
    """The parser of a module that is run as `python -m`. `doc`: what it measures; `takes`: how long, on two quiet cores."""
    return argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=(doc or "").strip(),
        epilog=f"It takes {takes} on two quiet cores.",
        formatter_class=_Help,
    )
