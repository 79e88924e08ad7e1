"""The worked example with real processes (`make demo`): two teams, ten GPUs, vectors V1-V3, and an overflow to a cloud.

The question it answers: *does it really do that, on my machine, now?*

- `story` starts a whole installation in a directory of its own, plays the acts with real processes and compares the results with the
  vectors.
- `narration` prints what happens, for people.

It uses the client and the `headrace` command as users do, and imports no service.
"""

from __future__ import annotations

from headrace.demo.story import main

__all__ = ["main"]
