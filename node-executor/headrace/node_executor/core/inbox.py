"""Queue of events of a node: events that actions cause wait until all actions of the step before are performed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.node_executor.core import vocabulary as v
    from headrace.node_executor.core.node import Node


class Inbox:
    """Passes events to `node` one at a time and its actions to `perform`, in order."""

    def __init__(self, node: Node, perform: Callable[[v.Action], None]) -> None:
        self._node = node
        self._perform = perform
        self._events: deque[v.Event] = deque()
        self._handling = False

    def handle(self, event: v.Event) -> None:
        """Handle the event now, or after the events before it."""
        self._events.append(event)
        if self._handling:
            return
        self._handling = True
        try:
            while self._events:
                for action in self._node.step(self._events.popleft()):
                    self._perform(action)
        finally:
            self._handling = False
