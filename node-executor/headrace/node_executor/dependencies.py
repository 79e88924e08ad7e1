"""The parts of the executor that belong to the machine it runs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from headrace.node_executor.core.vocabulary import Action
from headrace.node_executor.devices import Devices
from headrace.node_executor.enforcement.enforcement_worker import EnforcementWorker
from headrace.node_executor.files.workspace import Workspace
from headrace.node_executor.launch.preparation import Preparation
from headrace.node_executor.reporting.journal import Journal
from headrace.node_executor.reporting.tracing import Tracing
from headrace.node_executor.runtimes import Runtime
from headrace.node_executor.runtimes.container import ContainerRuntime
from headrace.node_executor.system import machine


class ExecutorDependencies(NamedTuple):
    """Dependencies of the executor. `output_limit`: bytes of output kept for each replica; `contains`: it can run containers.

    `containers`: runs containers, and ends those of a former executor; None if none ever ran. `others`: functions that perform the
    actions that concern no lease. `is_shutting_down`: tells, in a thread, whether the machine is.
    """

    workspace: Workspace
    preparation: Preparation
    devices: Devices
    enclosing: EnforcementWorker
    runtime: Runtime
    journal: Journal
    tracing: Tracing
    output_limit: int
    contains: bool = False
    containers: ContainerRuntime | None = None
    others: Mapping[type[Action], Callable[[], None]] = MappingProxyType({})
    is_shutting_down: Callable[[], bool] = machine.is_shutting_down
