"""Run the rules from their Python source where they are also compiled: HEADRACE_AS_WRITTEN=1, looked at when this is imported.

Machine code calls its own functions directly, so a comparison that replaces some of them needs the source; decisions are the same, only
the time differs. Import this before anything of headrace.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, SourceFileLoader

VARIABLE = "HEADRACE_AS_WRITTEN"


def _only_source(path: str) -> FileFinder:
    """What finds modules in one folder: of the product its sources, and nothing elsewhere."""
    if f"{os.sep}headrace" not in path:
        raise ImportError(path)
    return FileFinder(path, (SourceFileLoader, SOURCE_SUFFIXES))


if os.environ.get(VARIABLE):
    sys.path_hooks.insert(0, _only_source)
    sys.path_importer_cache.clear()
