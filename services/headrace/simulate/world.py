"""One run of a scenario: its timeline, played on a virtual system.

Naive meaning: at each moment everything of the timeline happens, and all react until nothing more happens. Then the moment's expectations
are compared, and time jumps to the next thing that is due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.documents.model import Profile
from headrace.contracts.facts import InstallationLevelV1
from headrace.contracts.facts.levels import LEVEL, RELEASES
from headrace.contracts.transport.subjects import node_writer
from headrace.domain.snapshots.snapshot import copy_of
from headrace.domain.state.gpu_shares import most_of
from headrace.governance.objects import full_name, placed
from headrace.governance.validation.reservation_feasibility import infeasible_reservations
from headrace.simulate.names import numbered
from headrace.simulate.refused import Refused
from headrace.simulate.timeline_events import happen
from headrace.simulate.virtual_system import START, VirtualSystem, owner_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.domain.state.state import State
    from headrace.simulate.changes import WhatIfChanges
    from headrace.simulate.scenario import Expect, Scenario

HYPOTHETICAL = 1 << 79
"""First number of hypothetical jobs, so that the numbers of the others are the same with and without them."""


class World(VirtualSystem):
    """One run of a scenario; see `VirtualSystem` for the arguments."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        judged: bool = True,
        state: State | None = None,
        start: int = START,
        long: bool = False,
    ) -> None:
        super().__init__(scenario, judged=judged, state=state, start=start, long=long)
        self._timeline = sorted(scenario.timeline, key=lambda moment: moment.at)
        self._position = 0

    def fork(self) -> World:
        """Return an independent world that goes on from here; its history begins here."""
        other = World(self.scenario, judged=self.judged, state=copy_of(self.state), start=self.start, long=self.long)
        other.now = self.now
        other.machines = self.machines.copy()
        other.names = dict(self.names)
        other._submitted, other._position = self._submitted, self._position
        return other

    def run(self) -> Iterator[tuple[int, Expect]]:
        """Run the timeline; yields (microseconds since the start, expectation) at the moment when it has to hold."""
        self.begin()
        yield from self.play()

    def begin(self) -> None:
        """State what exists before the first moment: an installation at the newest level, its documents and its nodes."""
        level = () if self.state.sequence else (InstallationLevelV1(level=LEVEL, release=RELEASES[-1]),)
        self.apply(self.scenario.documents, first=level)
        for nodes in self.scenario.nodes:
            for name in numbered(nodes.name, nodes.count):
                self.append(node_writer(name), [self.machines.register(nodes, name, self.now)])
        if self.judged and (errors := infeasible_reservations(self.state, self.scenario.documents)):
            raise Refused("\n".join(errors))

    def play(self, through: int | None = None) -> Iterator[tuple[int, Expect]]:
        """Go on along the timeline, to its end or through the moments up to `through` (microseconds since the start)."""
        timeline = self._timeline
        while self._position < len(timeline) and (through is None or timeline[self._position].at <= through):
            at = timeline[self._position].at
            self._jump_to(self.start + at)
            expected: list[Expect] = []
            while self._position < len(timeline) and timeline[self._position].at == at:
                moment = timeline[self._position]
                if moment.expect is not None:
                    expected.append(moment.expect)
                else:
                    happen(self, moment)
                self._position += 1
            self.run_until_stable()
            for expect in expected:
                yield at, expect

    def change(self, changes: WhatIfChanges) -> None:
        """Apply changes from now on: documents, deletions, nodes, jobs. Raises `Refused` if governance refuses them."""
        written = [place.name for place in placed(changes.documents)]
        self.otherwise = frozenset(
            (*written, *(full_name(deletion.kind, deletion.name, owner_of(deletion)) for deletion in changes.delete))
        )
        for one in written:
            profile = self.state.profiles.get((one.tenant, one.name)) if one.kind == "profile" else None
            if profile is not None and isinstance(profile.document, Profile):
                asked = most_of(self.state, profile.document)
                self.former[one.tenant, one.name] = {key: amount for key, amount in asked.items() if amount}
        for nodes in changes.nodes:
            for name in numbered(nodes.name, nodes.count):
                self.append(node_writer(name), [self.machines.register(nodes, name, self.now)])
        if any(getattr(changes.documents, kind) for kind in changes.documents.__struct_fields__):
            self.apply(changes.documents)
        for deletion in changes.delete:
            self.delete(deletion)
        submitted, self._submitted = self._submitted, HYPOTHETICAL
        for row in changes.submit:
            self.submit(row)
        self._submitted = submitted
