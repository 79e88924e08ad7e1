"""Sets up the runtime for containers, and removes containers whose leases are over."""

from __future__ import annotations

import asyncio
import contextlib
import os
import stat

import structlog

from headrace.node_executor.arguments import Settings
from headrace.node_executor.dependencies import ExecutorDependencies
from headrace.node_executor.enforcement.discovery import native_place
from headrace.node_executor.runtimes.container import ContainerRuntime
from headrace.node_executor.runtimes.container_engine import EngineError
from headrace.node_executor.runtimes.process import ProcessRuntime
from headrace.node_executor.system import native
from headrace.node_executor.system.c_programs import CONTAINER_INIT, STATIC

SOCKETS = ("/var/run/docker.sock", "/run/podman/podman.sock")

RECONCILE_EVERY = 30.0
"""Seconds between two reconciliations."""

_log = structlog.get_logger("headrace.node_executor")


def find_engine(choice: str, runtime_directory: str = "") -> str:
    """Return the socket for `auto`, `off` or a path; "" without an engine."""
    if choice == "off":
        return ""
    places = (*SOCKETS, f"{runtime_directory}/podman/podman.sock") if choice == "auto" else (choice,)
    for path in places:
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.stat(path).st_mode) and os.access(path, os.W_OK):
                return path
    return ""


def remembered(directory: str, engine: str) -> str:
    """Return the engine's socket, or without one that of a former executor: its containers may run on until it is there again."""
    path = f"{directory}/engine"
    with contextlib.suppress(OSError):
        if not engine:
            with open(path, encoding="utf-8") as file:
                return file.read()
        os.makedirs(directory, 0o700, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(engine)
    return engine


def containers_of(settings: Settings, engine: str, processes: ProcessRuntime) -> ContainerRuntime | None:
    """Return the runtime for the engine at this socket; without an engine, one that ends containers of a former executor, or None."""
    directory = f"{settings.data}/containers"
    socket = remembered(directory, engine) if settings.containers != "off" else ""
    if not socket:
        return None
    init = native.built(CONTAINER_INIT, native_place(settings.data, os.environ), STATIC)
    if not init:
        _log.warning(
            "no_container_init",
            reason="container_init.c could not be built",
            help="SIGTERM reaches the first process of a container only; install a C compiler with a static C library",
        )
    return ContainerRuntime(processes, socket, directory, init, f"{settings.name}:{os.path.realpath(settings.data)}")


async def keep_reconciling(dependencies: ExecutorDependencies, every: float = RECONCILE_EVERY) -> None:
    """Remove regularly the containers whose leases are over, including those left while their engine was away; until cancelled."""
    while True:
        if dependencies.containers is not None:
            await reconcile(dependencies, dependencies.containers)
        await asyncio.sleep(every)


async def reconcile(dependencies: ExecutorDependencies, containers: ContainerRuntime) -> None:
    """Reconcile once; no effect if the engine does not answer."""

    def known() -> set[str]:
        return {dependencies.workspace.name(left.order) for left in dependencies.journal.open.values()}

    try:
        removed, left = await containers.reconcile(known)
    except EngineError as error:
        _log.info("containers_unseen", reason=str(error))
        return
    if removed:
        _log.warning("containers_removed", names=removed, reason="their leases are over")
    if left:
        _log.warning("containers_left", reasons=left, help="they are tried again; their leases are over")
