"""The runtime of a node: containers for jobs with an image, processes for all others."""

from __future__ import annotations

from headrace.node_executor.runtimes import CannotStart, Launch, RuntimeListener
from headrace.node_executor.runtimes.container import ContainerRuntime
from headrace.node_executor.runtimes.process import ProcessRuntime


class Either:
    """Runs jobs with an image in containers, and all others as processes."""

    def __init__(self, processes: ProcessRuntime, containers: ContainerRuntime | None) -> None:
        self._processes = processes
        self._containers = containers

    def start(self, launch: Launch, listener: RuntimeListener) -> None:
        """See `Runtime.start` for the contract."""
        if launch.container is None:
            self._processes.start(launch, listener)
        elif self._containers is None:
            listener.failed(CannotStart(f"this node has no container engine for the image {launch.container.image}"))
        else:
            self._containers.start(launch, listener)

    def adopt(self, launch: Launch, listener: RuntimeListener) -> bool:
        """See `Runtime.adopt` for the contract."""
        runtime = self._processes if launch.container is None or self._containers is None else self._containers
        return runtime.adopt(launch, listener)

    def forget(self, name: str) -> None:
        """See `Runtime.forget` for the contract."""
        (self._processes if self._containers is None else self._containers).forget(name)
