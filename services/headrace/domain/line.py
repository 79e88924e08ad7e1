"""Who stands in line in each of some pools, best first, while accounts change and one after the other leaves it (R15).

Strategy: each group (`pending`) stands there with its next job only, and is ranked anew only when the accounts of its policy have changed.
The state is looked at and never changed: who has left is known here alone.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, NamedTuple

from headrace.domain.ahead import GroupRank, OwnRank, group_for, group_rank, may_be_granted, own_rank

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.domain.pending import JobGroup
    from headrace.domain.state import JobRecord, PolicyState, PoolState, State


class Entry(NamedTuple):
    """The next job of a group as it stands in one pool; `number` is the group's here. `closed`: only room is not what it lacks."""

    rank: GroupRank
    own: OwnRank
    number: int
    job: JobRecord
    closed: bool


class Line:
    """All that wait, of whom `job` is one: it stands in line even where it is closed, so that all see whether they are before it."""

    def __init__(self, state: State, job: JobRecord, pools: Mapping[str, PoolState]) -> None:
        self._state = state
        self._pools = pools
        self._mine = group_for(state, job)
        self._groups: list[JobGroup] = [group for group in state.pending.groups.values() if group is not self._mine]
        self._groups.append(self._mine)
        self._heads: list[JobRecord | None] = [group.head() for group in self._groups[:-1]]
        self._heads.append(self._mine.head() or job)
        self._rest: dict[int, list[JobRecord]] = {}
        self._lines: dict[str, list[Entry]] = {name: [] for name in pools}
        self._entries: dict[tuple[str, int], Entry] = {}
        self._by_policy: dict[tuple[str, str], list[int]] = {}
        for number, group in enumerate(self._groups):
            self._by_policy.setdefault(group.policy.key, []).append(number)
        self._stale: dict[int, None] = dict.fromkeys(range(len(self._groups)))

    def of(self, pool: str) -> list[Entry]:
        """The line of a pool."""
        return self._lines[pool]

    def mark(self, policy: PolicyState) -> None:
        """The accounts of a policy have changed, and with them those of its tenant's other policies where there is a share."""
        tenant = policy.document.tenant
        if any((tenant, name) in self._state.shares for name in self._pools):
            for key, numbers in self._by_policy.items():
                if key[0] == tenant:
                    self._stale.update(dict.fromkeys(numbers))
        else:
            self._stale.update(dict.fromkeys(self._by_policy.get(policy.key, ())))

    def leave(self, entry: Entry) -> None:
        """The job of an entry stands in line no more; the next of its group does."""
        rest = self._rest.get(entry.number)
        if rest is None:
            rest = self._rest[entry.number] = sorted(
                self._groups[entry.number].members.values(), key=own_rank, reverse=True
            )  # the next one last, where it is cheap to take
            rest.pop()
        self._heads[entry.number] = rest.pop() if rest else None
        self._stale[entry.number] = None

    def refresh(self) -> int:
        """Rank anew whatever has become stale; how many groups that were."""
        stale, self._stale = self._stale, {}
        for name, line in self._lines.items():
            whole = len(stale) > len(self._groups) // 4
            for number in stale:
                old = self._entries.pop((name, number), None)
                if old is not None and not whole:
                    del line[bisect_left(line, old)]
                new = self._entry(number, self._pools[name])
                if new is not None:
                    self._entries[name, number] = new
                    if not whole:
                        insort(line, new)
            if whole:
                line[:] = sorted(entry for (pool, _), entry in self._entries.items() if pool == name)
        return len(stale)

    def _entry(self, number: int, pool: PoolState) -> Entry | None:
        group, job = self._groups[number], self._heads[number]
        if job is None:
            return None
        closed = not may_be_granted(self._state, group, pool)
        if closed and group is not self._mine:
            return None
        return Entry(group_rank(self._state, group, job, pool), own_rank(job), number, job, closed)
