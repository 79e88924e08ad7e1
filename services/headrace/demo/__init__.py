"""The worked example, played for real (`make demo`): two teams, ten GPUs, vectors V1-V3.

The question it answers: *does it really do that, on my machine, now?*

`story` starts a whole installation in a folder of its own, plays the acts with real processes and holds what happens against the vectors;
`telling` prints it so that a person can follow. It uses the client and the `headrace` command like anybody, and imports no service.
"""

from __future__ import annotations

from headrace.demo.story import main

__all__ = ["main"]
