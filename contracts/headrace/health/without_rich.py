"""Import before structlog in a process that runs for long: imports structlog without *rich*.

structlog imports that library, which draws in terminals, wherever it is installed, and `headrace top` needs it. It takes 3 MiB in every
process and some time; logs in JSON do not use it.
"""

from __future__ import annotations

import sys

_is_loaded = "rich" in sys.modules
if not _is_loaded:
    sys.modules["rich"] = None  # type: ignore[assignment]  # what the import system takes for a module that cannot be imported

import structlog  # noqa: E402, F401

if not _is_loaded:
    del sys.modules["rich"]
