"""Import before anything else in a process that runs for long: keeps structlog from importing *rich*.

structlog imports that library, which draws in terminals, wherever it is installed, and `headrace top` needs it. It takes 3 MiB in every
process; logs in JSON do not use it.
"""

from __future__ import annotations

import sys

sys.modules.setdefault("rich", None)  # type: ignore[arg-type]  # what the import system takes for a module that cannot be imported
