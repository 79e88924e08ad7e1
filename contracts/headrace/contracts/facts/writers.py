"""Which writer may state which fact, about which object, as a table. One writer for each kind of fact.

Readers check it for every record (`headrace.domain.fold.entitlement`); a record that breaks it is void. A node may state
facts about itself and leases on itself only.
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.facts.fact import Fact
from headrace.contracts.transport.subjects import NODE_WRITER

ADMISSION = "admission"
ALLOCATOR = "allocator"
PREEMPTION = "preemption"
GOVERNANCE = "governance"
AUDIT = "audit"
NODE = "node"

SERVICES = (ADMISSION, ALLOCATOR, PREEMPTION, GOVERNANCE, AUDIT)
"""Services that write to the ledger; feed and accounting only read it."""


class Law(NamedTuple):
    """One row: `writer` may state `fact` about `about`, which has to be in one of `states` for the fact to have an effect."""

    writer: str
    fact: type[Fact]
    about: str
    states: str


LAWS: tuple[Law, ...] = (
    Law(GOVERNANCE, f.TenantAppliedV1, "a tenant", "any"),
    Law(GOVERNANCE, f.TenantDeletedV1, "a tenant", "exists"),
    Law(GOVERNANCE, f.UserAppliedV1, "a user", "any"),
    Law(GOVERNANCE, f.UserDeletedV1, "a user", "exists"),
    Law(GOVERNANCE, f.GroupAppliedV1, "a group", "any"),
    Law(GOVERNANCE, f.GroupDeletedV1, "a group", "exists"),
    Law(GOVERNANCE, f.PoolAppliedV1, "a pool", "any"),
    Law(GOVERNANCE, f.PoolDeletedV1, "a pool", "exists"),
    Law(GOVERNANCE, f.ProfileAppliedV1, "a profile", "any"),
    Law(GOVERNANCE, f.ProfileDeletedV1, "a profile", "exists"),
    Law(GOVERNANCE, f.PolicyAppliedV1, "a policy", "any"),
    Law(GOVERNANCE, f.PolicyDeletedV1, "a policy", "exists"),
    Law(GOVERNANCE, f.ObjectClosedV1, "an object", "exists"),
    Law(GOVERNANCE, f.CalendarStatedV1, "a time zone", "any"),
    Law(GOVERNANCE, f.NodeCordonedV1, "a node", "registered"),
    Law(GOVERNANCE, f.NodeUncordonedV1, "a node", "cordoned"),
    Law(GOVERNANCE, f.NodeDrainOrderedV1, "a node", "registered"),
    Law(GOVERNANCE, f.PreemptionForcedV1, "a job", "starting, running"),
    Law(GOVERNANCE, f.NodeConfirmedEmptyV1, "a node", "away, or with overdue leases"),
    Law(GOVERNANCE, f.NodeApprovedV1, "a node", "any"),
    Law(GOVERNANCE, f.NodeExcludedV1, "a node", "any"),
    Law(GOVERNANCE, f.TenantErasedV1, "a tenant", "any"),
    Law(GOVERNANCE, f.UserErasedV1, "a user", "any"),
    Law(GOVERNANCE, f.TextsLockedV1, "a user", "not locked"),
    Law(GOVERNANCE, f.TextsUnlockedV1, "a user", "locked"),
    Law(GOVERNANCE, f.TokenCreatedV1, "a token", "unknown"),
    Law(GOVERNANCE, f.MembershipClaimedV1, "a user", "any"),
    Law(GOVERNANCE, f.TokenRevokedV1, "a token, or all of a bearer", "any"),
    Law(GOVERNANCE, f.InstallationLevelV1, "the installation", "every process reads it"),
    Law(GOVERNANCE, f.StorageStatedV1, "the installation", "any"),
    Law(ADMISSION, f.AccountNumberedV1, "a user", "without a number"),
    Law(ADMISSION, f.JobAdmittedV1, "a job", "unknown"),
    Law(ADMISSION, f.JobRejectedV1, "a job", "unknown"),
    Law(ADMISSION, f.WishRefusedV1, "a message on SUBMIT", "not judged"),
    Law(ADMISSION, f.JobCancelRequestedV1, "a job", "not ended"),
    Law(ADMISSION, f.JobRequeueRequestedV1, "a job", "starting, running, suspended"),
    Law(ADMISSION, f.RefusalsCountedV1, "a tenant", "any"),
    Law(ADMISSION, f.WishesJudgedV1, "SUBMIT", "any"),
    Law(ALLOCATOR, f.LeaseGrantedV1, "a job", "pending"),
    Law(ALLOCATOR, f.LeaseRevokedV1, "a lease", "held"),
    Law(ALLOCATOR, f.PolicyGatedV1, "a policy", "exists"),
    Law(ALLOCATOR, f.GrowthRequestedV1, "a pool", "not growing"),
    Law(ALLOCATOR, f.GrowthEndedV1, "a pool", "growing"),
    Law(ALLOCATOR, f.StopOrderedV1, "a job", "starting, running"),
    Law(ALLOCATOR, f.ResumeOrderedV1, "a job", "suspended"),
    Law(ALLOCATOR, f.MoveOrderedV1, "a job", "suspended"),
    Law(ALLOCATOR, f.JobRequeuedV1, "a job", "no lease left"),
    Law(ALLOCATOR, f.JobEndedV1, "a job", "pending, no lease left"),
    Law(ALLOCATOR, f.JobDismissedV1, "a job", "pending"),
    Law(ALLOCATOR, f.NodeSetAsideV1, "a node", "not cordoned, or set aside"),
    Law(ALLOCATOR, f.NodeCheckOrderedV1, "a node", "set aside"),
    Law(ALLOCATOR, f.HoldPlacedV1, "a job", "pending"),
    Law(ALLOCATOR, f.HoldLiftedV1, "a hold", "placed"),
    Law(ALLOCATOR, f.ReclaimOpenedV1, "a job", "pending"),
    Law(ALLOCATOR, f.PreemptionOrderedV1, "a proposal", "open"),
    Law(ALLOCATOR, f.PreemptionDismissedV1, "a search", "open"),
    Law(ALLOCATOR, f.NominationEndedV1, "a nomination", "open"),
    Law(ALLOCATOR, f.MixLearnedV1, "a pool", "exists"),
    Law(PREEMPTION, f.PreemptionProposedV1, "a search", "open"),
    Law(PREEMPTION, f.PreemptionNoneV1, "a search", "open"),
    Law(PREEMPTION, f.PreemptionSettledV1, "a preemption", "ordered, all victims gone"),
    Law(PREEMPTION, f.LeaseOverdueV1, "a lease", "past its ladder"),
    Law(PREEMPTION, f.NodeLostV1, "a node", "registered"),
    Law(NODE, f.NodeRegisteredV1, "itself", "any"),
    Law(NODE, f.NodeStoppedV1, "itself", "registered"),
    Law(NODE, f.NodeCheckedV1, "itself", "asked to check itself"),
    Law(NODE, f.DeviceDrainedV1, "a device of its own", "registered"),
    Law(NODE, f.DeviceReturnedV1, "a device of its own", "drained"),
    Law(NODE, f.LeaseOverranV1, "a lease on itself", "held"),
    Law(NODE, f.LeaseStartedV1, "a lease on itself", "granted"),
    Law(NODE, f.LeaseRungV1, "a lease on itself", "held"),
    Law(NODE, f.LeaseSuspendedV1, "a lease on itself", "held"),
    Law(NODE, f.LeaseResumedV1, "a lease on itself", "to resume"),
    Law(NODE, f.CheckpointRegisteredV1, "a job with a lease on itself", "held"),
    Law(NODE, f.LeaseEndedV1, "a lease on itself", "held"),
    Law(AUDIT, f.LedgerSealedV1, "records that no seal covers yet", "any"),
    Law(AUDIT, f.SnapshotTakenV1, "a prefix of the ledger", "any"),
)

_WRITER_OF: dict[type[Fact], str] = {law.fact: law.writer for law in LAWS}


def writer_kind(by: str) -> str:
    """`node` for `node.<name>`, else the service's own name."""
    return NODE if by.startswith(NODE_WRITER) else by


def may_state(by: str, fact: type[Fact]) -> bool:
    """True if `by` may state facts of this type at all; the reader, which has the state, checks the object."""
    return _WRITER_OF.get(fact) == writer_kind(by)
