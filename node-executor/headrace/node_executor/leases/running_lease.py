"""The executor's record of one lease that was, or is about to be, started."""

from __future__ import annotations

import asyncio
import os

from headrace.contracts.messages.orders import StartOrder
from headrace.contracts.values.amounts import MEMORY
from headrace.contracts.values.ids import split_job_key
from headrace.node_executor.enforcement import EnforcementRequest, Entered
from headrace.node_executor.enforcement.in_containers import level_inside
from headrace.node_executor.files.checkpoints import CheckpointWatch
from headrace.node_executor.launch.preparation import Prepared
from headrace.node_executor.leases.suspension import SuspensionTarget
from headrace.node_executor.runtimes import JOB, Launch, Running
from headrace.node_executor.runtimes.job_log import Output


class RunningLease:
    """A lease with its process and its state outside the core.

    `complained`: the last complaint about its checkpoints; `abandoned`: its group could not be removed once; `lost`: why it is unknown
    how it would have ended; `moving`: it is being suspended or resumed; `entering`: it is being enclosed; `unwanted`: it is not to be
    started; `outlasted`: the machine was restarted since it began.
    """

    __slots__ = (
        *("abandoned", "callback", "complained", "entered", "entering", "lost", "moving", "name"),
        *("order", "outlasted", "output", "prepared", "running", "timer", "unwanted", "watch"),
    )

    def __init__(self, order: StartOrder, prepared: Prepared, output: Output) -> None:
        self.name = os.path.basename(prepared.paths.control)
        self.order = order
        self.prepared = prepared
        self.output = output
        self.watch = CheckpointWatch(prepared.paths, order.rank, prepared.account, _named(order))
        self.entered = Entered("none", {})
        self.entering = False
        self.unwanted = False
        self.outlasted = False
        self.running: Running | None = None
        self.callback: Running | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.complained = ""
        self.abandoned = False
        self.lost = ""
        self.moving: asyncio.Task[None] | None = None

    @property
    def owner(self) -> str:
        """Tenant and user of the job."""
        tenant, user, _ = split_job_key(self.order.job)
        return f"{tenant}.{user}"

    @property
    def case(self) -> EnforcementRequest:
        """Its request for enforcement."""
        group = self.prepared.group.directory if self.prepared.group is not None else ""
        contained = bool(self.order.image)
        return EnforcementRequest(self.order.lease, self.order.devices, self.prepared.paths.control, group, contained)

    @property
    def isolation(self) -> str:
        """Its level of isolation, in a container or not."""
        return level_inside(self.entered.level) if self.order.image else self.entered.level

    def set(self, name: str, value: str) -> None:
        """Set a variable of the job, before it is started."""
        self.prepared = self.prepared._replace(env={**self.prepared.env, name: value})

    def give(self, directory: str) -> None:
        """Give its container one more directory of the node, before it is started."""
        container = self.prepared.container
        if container is not None:
            self.prepared = self.prepared._replace(container=container._replace(binds=(*container.binds, directory)))

    def launch(self, command: tuple[str, ...], env: dict[str, str], part: str = JOB) -> Launch:
        """Return how to start the job, or its callback, which has a name of its own; both in the enclosure."""
        prepared, entered, name = self.prepared, self.entered, self.name if part == JOB else f"{self.name}.{part}"
        container = prepared.container
        if container is not None:
            container = container._replace(nodes=(*container.nodes, *entered.nodes))
        bounds = (prepared.account, prepared.group, part, entered.group, entered.prefix, container)
        return Launch(name, command, env | entered.env, prepared.directory, prepared.paths.control, self.output, *bounds)

    def standing(self, running: Running) -> SuspensionTarget:
        """Return its target for suspension and resumption."""
        order, prepared = self.order, self.prepared
        return SuspensionTarget(running, order.devices, prepared.paths.control, running.group, order.amounts.get(MEMORY, 0))


def _named(order: StartOrder) -> tuple[str, ...]:
    """Return the directories of this machine, beside the job's own, in which it may save: its working directory and its group's mounts.

    A container has other directories under these paths, except those that are mounted at the same path.
    """
    mounts = tuple(mount.source for mount in order.mounts if mount.source == mount.target)
    return mounts if order.image or not order.workdir else (order.workdir, *mounts)
