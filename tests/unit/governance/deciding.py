"""Governance that decides in the test's own process, for requests that wait until what they asked for is stated."""

from __future__ import annotations

import asyncio

from headrace.governance.calendars import TimeZones
from headrace.governance.decide import Governance

ZONES = TimeZones(lambda _zone, since, _until: ((since, 3_600),), lambda: ["Europe/Berlin"])


class FakeDeciding:
    """A loop that decides whenever it is nudged, until nothing is left to say."""

    def __init__(self, installation):
        self.installation = installation
        self.decider = Governance(installation.state, ZONES)
        self.caught_up = asyncio.Event()
        self.caught_up.set()

    def wake(self):
        asyncio.get_running_loop().call_soon(self.run)

    def run(self):
        while facts := self.decider.decide(0):
            self.installation.append_facts(*facts)
