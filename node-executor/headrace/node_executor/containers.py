"""The containers of this executor: what runs them here, and what sees that none outlives its lease."""

from __future__ import annotations

import asyncio
import os

import structlog

from headrace.node_executor import native
from headrace.node_executor.arguments import Settings
from headrace.node_executor.dependencies import Equipment
from headrace.node_executor.enforcement.discovery import native_place
from headrace.node_executor.runtimes.container import INIT_FLAGS, INIT_SOURCE, ContainerRuntime, remembered
from headrace.node_executor.runtimes.container_run import EngineError
from headrace.node_executor.runtimes.process import ProcessRuntime

RECONCILE_EVERY = 30.0
"""Seconds between two looks for containers of leases that are over."""

_log = structlog.get_logger("headrace.node_executor")


def containers_of(settings: Settings, engine: str, processes: ProcessRuntime) -> ContainerRuntime | None:
    """What runs containers by the engine at this socket; without one, what ends those that a former executor left, if it had any."""
    directory = f"{settings.data}/containers"
    socket = remembered(directory, engine) if settings.containers != "off" else ""
    if not socket:
        return None
    init = native.built(INIT_SOURCE, native_place(settings.data, os.environ), INIT_FLAGS)
    if not init:
        _log.warning(
            "no_container_init",
            reason="container_init.c could not be built",
            help="SIGTERM reaches the first process of a container only; install a C compiler with a static C library",
        )
    return ContainerRuntime(processes, socket, directory, init, f"{settings.name}:{os.path.realpath(settings.data)}")


async def keep_reconciling(equipment: Equipment, every: float = RECONCILE_EVERY) -> None:
    """Have containers removed whose leases are over, also those that could not be while their engine was away; until cancelled."""
    while True:
        if equipment.containers is not None:
            await reconcile(equipment, equipment.containers)
        await asyncio.sleep(every)


async def reconcile(equipment: Equipment, containers: ContainerRuntime) -> None:
    """Once; where the engine does not answer, nothing."""

    def known() -> set[str]:
        return {equipment.workspace.name(left.order) for left in equipment.journal.open.values()}

    try:
        removed, left = await containers.reconcile(known)
    except EngineError as error:
        _log.info("containers_unseen", reason=str(error))
        return
    if removed:
        _log.warning("containers_removed", names=removed, reason="their leases are over")
    if left:
        _log.warning("containers_left", reasons=left, help="they are tried again; their leases are over")
