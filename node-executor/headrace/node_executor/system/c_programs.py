"""The small C programs of the executor: where their sources lie, with which flags they are built, and how a build is named.

A compiled wheel brings them built, in `PREBUILT`; elsewhere `native` builds them at the first start. The build of a wheel reads this
module by itself, so it imports nothing beside the standard library.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""Directory of the node executor."""
PREBUILT = os.path.join(PACKAGE, "prebuilt")
"""Directory of the programs that a compiled wheel brings; missing elsewhere."""

Variants = Sequence[Sequence[str]]
"""Flags of the compiler, the preferred ones first."""

PROGRAM: Variants = (("-O2", "-static"), ("-O2",))
STATIC: Variants = (("-O2", "-static"),)
LIBRARY: Variants = (("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,--no-as-needed", "-ldl", "-lpthread"),)

KEEPER = os.path.join(PACKAGE, "runtimes", "keeper.c")
CONTAINER_INIT = os.path.join(PACKAGE, "runtimes", "container_init.c")
PRIVATE_DEV = os.path.join(PACKAGE, "enforcement", "native", "private_dev.c")
MEMORY_CAP = os.path.join(PACKAGE, "enforcement", "native", "memory_cap.c")

PROGRAMS = {KEEPER: PROGRAM, CONTAINER_INIT: STATIC, PRIVATE_DEV: PROGRAM, MEMORY_CAP: LIBRARY}
"""All of them, with their flags."""


def build_name(source: str, variants: Variants) -> str:
    """Name of the file built from `source`; it changes with the source and the flags. Raises OSError if the source cannot be read."""
    with open(source, "rb") as file:
        digest = hashlib.sha256(repr(variants).encode() + file.read()).hexdigest()[:16]
    return f"{os.path.basename(source).removesuffix('.c')}-{digest}"
