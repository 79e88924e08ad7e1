"""What the executor has of one lease that was, or is about to be, started."""

from __future__ import annotations

import asyncio
import os

from headrace.contracts.orders import StartOrder
from headrace.node_executor.checkpoints import CheckpointWatch
from headrace.node_executor.preparation import Prepared
from headrace.node_executor.runtimes import JOB, Launch, Running
from headrace.node_executor.runtimes.output import Output


class Held:
    """One lease. `complained`: what was last said of its checkpoints; `abandoned`: its group could not be removed once."""

    __slots__ = ("abandoned", "callback", "complained", "name", "order", "output", "prepared", "running", "timer", "watch")

    def __init__(self, order: StartOrder, prepared: Prepared, output: Output) -> None:
        self.name = os.path.basename(prepared.paths.control)
        self.order = order
        self.prepared = prepared
        self.output = output
        self.watch = CheckpointWatch(prepared.paths, order.rank)
        self.running: Running | None = None
        self.callback: Running | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.complained = ""
        self.abandoned = False

    def launch(self, command: tuple[str, ...], env: dict[str, str], part: str = JOB) -> Launch:
        """How to start the job, or its callback, which has a name of its own."""
        prepared, name = self.prepared, self.name if part == JOB else f"{self.name}.{part}"
        bounds = (prepared.account, prepared.group, part)
        return Launch(name, command, env, prepared.directory, prepared.paths.control, self.output, *bounds)
