"""The requests of one pool, whether or not jobs wait for them: which can be placed on its nodes now, and which policies lend units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.request_bitsets import Ceiling, bits_of
from headrace.domain.model.dedication import reach_in

if TYPE_CHECKING:
    from headrace.domain.indexes.pending import JobGroup
    from headrace.domain.model.jobs import PolicyState
    from headrace.domain.state.pools import PoolState

PLACEABLE_KEPT = 4_096
"""Maximum sets of shapes whose requests are cached."""


class PoolRequests:
    """`version` counts changes of candidates and their requests, not of their order.

    `lendings` counts changes of the policies that hold units that others might take.
    """

    __slots__ = (
        "_across",
        "_lending",
        "_of_shape",
        "_serials",
        "_within",
        "ceiling",
        "lendings",
        "name",
        "placeable_by_owners",
        "pool",
        "version",
    )

    def __init__(self, pool: PoolState) -> None:
        self.pool = pool
        self.name = pool.document.name
        self.version = 0
        self._of_shape: dict[tuple[str, ...], dict[int, int]] = {}
        self.placeable_by_owners: dict[tuple[str, ...], dict[int, int]] = {}
        self.ceiling = Ceiling(pool)
        self._within: dict[str, dict[PolicyState, None]] = {}
        self._across: dict[str, dict[PolicyState, None]] = {}
        self._lending: dict[str, None] = {}  # the tenants that lend across
        self._serials = 0
        self.lendings = 0

    def next_serial(self) -> int:
        """A number unique in this pool: while a job moves from one group to another, two may briefly have the same head."""
        self._serials += 1
        return self._serials

    def register(self, number: int, group: JobGroup) -> None:
        """Register a request, and the dedicated nodes that its job may use (R21)."""
        shape = self.pool.index.number(group.request.shape)
        of_shape = self._of_shape.setdefault(reach_in(self.pool.document, group.policy.key), {})
        known = of_shape.get(shape, 0)
        if not known >> number & 1:
            of_shape[shape] = known | 1 << number
            self.placeable_by_owners.clear()

    def placeable(self) -> int:
        """Requests with one replica that some node takes now."""
        requests = 0
        for owners in self._of_shape:
            requests |= self._placeable_on(owners)
        return requests

    def _placeable_on(self, owners: tuple[str, ...]) -> int:
        """Cached by set of shapes, because in a full pool the same few recur; a request has one shape."""
        shapes = self.pool.index.feasible(owners)
        known = self.placeable_by_owners.get(owners)
        if known is None:
            known = self.placeable_by_owners[owners] = {0: 0}
        requests = known.get(shapes)
        if requests is None:
            if len(known) > PLACEABLE_KEPT:
                known = self.placeable_by_owners[owners] = {0: 0}
            before, requests = next(reversed(known.items()))
            for shape in bits_of(shapes ^ before):
                requests ^= self._of_shape[owners].get(shape, 0)
            known[shapes] = requests
        return requests

    def set_lending(self, policy: PolicyState, *, within: bool, across: bool) -> None:
        """Update whether a policy holds units that others of its tenant, or other tenants, might take back."""
        self.lendings += 1
        tenant = policy.document.tenant
        for lenders, lends in ((self._within, within), (self._across, across)):
            of_tenant = lenders.setdefault(tenant, {})
            if lends:
                of_tenant[policy] = None
            else:
                of_tenant.pop(policy, None)
        self._lending[tenant] = None
        if not self._across[tenant]:
            del self._lending[tenant]

    def lends_within(self, policy: PolicyState) -> bool:
        """True if another policy of its tenant is above its reservation here (R24); otherwise a search among them cannot succeed."""
        own = self._within.get(policy.document.tenant, {})
        return len(own) > (policy in own)

    def lends_across(self, policy: PolicyState) -> bool:
        """True if another tenant is above its reservation here."""
        return len(self._lending) > (policy.document.tenant in self._lending)
