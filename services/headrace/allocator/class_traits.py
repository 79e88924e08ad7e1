"""What a class of pending jobs is, besides its quotas: whether it is preemptible, may borrow, may take from lower priorities, and so on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.allocator.request_bitsets import EVERY
from headrace.domain.queueing.gates import must_borrow

if TYPE_CHECKING:
    from headrace.domain.indexes.pending import JobGroup


class ClassTraits(NamedTuple):
    """Properties, besides quotas, that decide where a class's requests belong. The integers are EVERY or 0.

    `backed`: covered by its policy's reservation; 0 while a budget is used up (R33). `by_firm`: whether non-preemptible use alone decides
    which jobs rank inside the reservation. `user`: whose limit counts, where the policy limits each of its users; else empty.
    """

    preemptible: bool
    by_firm: bool
    beyond: int
    backed: int
    borrows: int
    takes_lower: int
    user: str


def traits_of(group: JobGroup, *, borrows: bool, by_firm: bool) -> ClassTraits:
    """The traits of all jobs of a group. `borrows`: its queue does (R12)."""
    document = group.policy.document
    return ClassTraits(
        preemptible=group.preemptible,
        by_firm=by_firm,
        beyond=EVERY if group.beyond else 0,
        backed=0 if must_borrow(group.policy) else EVERY,
        borrows=EVERY if borrows and group.preemptible else 0,
        takes_lower=EVERY if document.preemption.preempt_lower_priority else 0,
        user=group.user if document.per_user is not None and document.per_user.limit else "",
    )
