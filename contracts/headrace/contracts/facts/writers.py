"""Which writer may state which fact, about which object, as a table. One writer for each kind of fact.

Readers check it for every record (`headrace.domain.fold.entitlement`); a record that breaks it is void. A node may state
facts about itself and leases on itself only.
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.facts.fact import Fact, fact_type
from headrace.contracts.values.ids import NODE_WRITER

ADMISSION = "admission"
ALLOCATOR = "allocator"
PREEMPTION = "preemption"
GOVERNANCE = "governance"
AUDIT = "audit"
PROVISIONER = "provisioner"
NODE = "node"

SERVICES = (ADMISSION, ALLOCATOR, PREEMPTION, GOVERNANCE, AUDIT, PROVISIONER)
"""Services that write to the ledger; feed and accounting only read it."""


class WriterRule(NamedTuple):
    """One row: `writer` may state `fact` about `about`, which has to be in one of `states` for the fact to have an effect."""

    writer: str
    fact: type[Fact]
    about: str
    states: str


WRITER_RULES: tuple[WriterRule, ...] = (
    WriterRule(GOVERNANCE, f.TenantAppliedV1, "a tenant", "any"),
    WriterRule(GOVERNANCE, f.TenantDeletedV1, "a tenant", "exists"),
    WriterRule(GOVERNANCE, f.UserAppliedV1, "a user", "any"),
    WriterRule(GOVERNANCE, f.UserDeletedV1, "a user", "exists"),
    WriterRule(GOVERNANCE, f.GroupAppliedV1, "a group", "any"),
    WriterRule(GOVERNANCE, f.GroupDeletedV1, "a group", "exists"),
    WriterRule(GOVERNANCE, f.PoolAppliedV1, "a pool", "any"),
    WriterRule(GOVERNANCE, f.PoolDeletedV1, "a pool", "exists"),
    WriterRule(GOVERNANCE, f.ProfileAppliedV1, "a profile", "any"),
    WriterRule(GOVERNANCE, f.ProfileDeletedV1, "a profile", "exists"),
    WriterRule(GOVERNANCE, f.PolicyAppliedV1, "a policy", "any"),
    WriterRule(GOVERNANCE, f.PolicyDeletedV1, "a policy", "exists"),
    WriterRule(GOVERNANCE, f.ObjectClosedV1, "an object", "exists"),
    WriterRule(GOVERNANCE, f.CalendarStatedV1, "a time zone", "any"),
    WriterRule(GOVERNANCE, f.NodeCordonedV1, "a node", "registered"),
    WriterRule(GOVERNANCE, f.NodeUncordonedV1, "a node", "cordoned"),
    WriterRule(GOVERNANCE, f.NodeDrainOrderedV1, "a node", "registered"),
    WriterRule(GOVERNANCE, f.NodeDrainScheduledV1, "a node", "registered"),
    WriterRule(GOVERNANCE, f.PreemptionForcedV1, "a job", "starting, running"),
    WriterRule(GOVERNANCE, f.NodeConfirmedEmptyV1, "a node", "away, or with overdue leases"),
    WriterRule(GOVERNANCE, f.NodeApprovedV1, "a node", "any"),
    WriterRule(GOVERNANCE, f.NodeExcludedV1, "a node", "any"),
    WriterRule(GOVERNANCE, f.NodeRemovedV1, "a node", "registered, no lease left"),
    WriterRule(GOVERNANCE, f.TenantErasedV1, "a tenant", "any"),
    WriterRule(GOVERNANCE, f.UserErasedV1, "a user", "any"),
    WriterRule(GOVERNANCE, f.TextsLockedV1, "a user", "not locked"),
    WriterRule(GOVERNANCE, f.TextsUnlockedV1, "a user", "locked"),
    WriterRule(GOVERNANCE, f.TokenCreatedV1, "a token", "unknown"),
    WriterRule(GOVERNANCE, f.MembershipClaimedV1, "a user", "any"),
    WriterRule(GOVERNANCE, f.TokenRevokedV1, "a token, or all of a bearer", "any"),
    WriterRule(GOVERNANCE, f.InstallationLevelV1, "the installation", "every process reads it"),
    WriterRule(GOVERNANCE, f.StorageStatedV1, "the installation", "any"),
    WriterRule(ADMISSION, f.AccountNumberedV1, "a user", "without a number"),
    WriterRule(ADMISSION, f.JobAdmittedV1, "a job", "unknown"),
    WriterRule(ADMISSION, f.JobRejectedV1, "a job", "unknown"),
    WriterRule(ADMISSION, f.WishRefusedV1, "a message on SUBMIT", "not judged"),
    WriterRule(ADMISSION, f.JobCancelRequestedV1, "a job", "not ended"),
    WriterRule(ADMISSION, f.JobRequeueRequestedV1, "a job", "starting, running, suspended"),
    WriterRule(ADMISSION, f.RefusalsCountedV1, "a tenant", "any"),
    WriterRule(ADMISSION, f.WishesJudgedV1, "SUBMIT", "any"),
    WriterRule(ALLOCATOR, f.LeaseGrantedV1, "a job", "pending"),
    WriterRule(ALLOCATOR, f.LeaseRevokedV1, "a lease", "held"),
    WriterRule(ALLOCATOR, f.PolicyGatedV1, "a policy", "exists"),
    WriterRule(ALLOCATOR, f.NodeDrainBeganV1, "a node", "to be drained"),
    WriterRule(ALLOCATOR, f.MaintenanceStatedV1, "a pool", "exists"),
    WriterRule(ALLOCATOR, f.GrowthRequestedV1, "a pool", "not growing"),
    WriterRule(ALLOCATOR, f.GrowthEndedV1, "a pool", "growing"),
    WriterRule(ALLOCATOR, f.StopOrderedV1, "a job", "starting, running"),
    WriterRule(ALLOCATOR, f.ResumeOrderedV1, "a job", "suspended"),
    WriterRule(ALLOCATOR, f.MoveOrderedV1, "a job", "suspended"),
    WriterRule(ALLOCATOR, f.JobRequeuedV1, "a job", "no lease left"),
    WriterRule(ALLOCATOR, f.JobEndedV1, "a job", "pending, no lease left"),
    WriterRule(ALLOCATOR, f.JobDismissedV1, "a job", "pending"),
    WriterRule(ALLOCATOR, f.JobMatchedV1, "a job", "pending"),
    WriterRule(ALLOCATOR, f.NodeSetAsideV1, "a node", "not cordoned, or set aside"),
    WriterRule(ALLOCATOR, f.NodeCheckOrderedV1, "a node", "set aside"),
    WriterRule(ALLOCATOR, f.HoldPlacedV1, "a job", "pending"),
    WriterRule(ALLOCATOR, f.HoldLiftedV1, "a hold", "placed"),
    WriterRule(ALLOCATOR, f.ReclaimOpenedV1, "a job", "pending"),
    WriterRule(ALLOCATOR, f.PreemptionOrderedV1, "a proposal", "open"),
    WriterRule(ALLOCATOR, f.PreemptionDismissedV1, "a search", "open"),
    WriterRule(ALLOCATOR, f.NominationEndedV1, "a nomination", "open"),
    WriterRule(ALLOCATOR, f.MixLearnedV1, "a pool", "exists"),
    WriterRule(PREEMPTION, f.PreemptionProposedV1, "a search", "open"),
    WriterRule(PREEMPTION, f.PreemptionNoneV1, "a search", "open"),
    WriterRule(PREEMPTION, f.PreemptionSettledV1, "a preemption", "ordered, all victims gone"),
    WriterRule(PREEMPTION, f.LeaseOverdueV1, "a lease", "past its ladder"),
    WriterRule(PREEMPTION, f.LeaseIdledV1, "a lease", "held, preemptible"),
    WriterRule(PREEMPTION, f.LeaseUsedV1, "a lease", "idle"),
    WriterRule(PREEMPTION, f.NodeLostV1, "a node", "registered"),
    WriterRule(NODE, f.NodeRegisteredV1, "itself", "any"),
    WriterRule(NODE, f.NodeStoppedV1, "itself", "registered"),
    WriterRule(NODE, f.NodeCheckedV1, "itself", "asked to check itself"),
    WriterRule(NODE, f.InstanceInterruptedV1, "itself", "an instance"),
    WriterRule(NODE, f.DeviceDrainedV1, "a device of its own", "registered"),
    WriterRule(NODE, f.DeviceReturnedV1, "a device of its own", "drained"),
    WriterRule(NODE, f.LeaseOverranV1, "a lease on itself", "held"),
    WriterRule(NODE, f.LeaseStartedV1, "a lease on itself", "granted"),
    WriterRule(NODE, f.LeaseRungV1, "a lease on itself", "held"),
    WriterRule(NODE, f.LeaseSuspendedV1, "a lease on itself", "held"),
    WriterRule(NODE, f.LeaseResumedV1, "a lease on itself", "to resume"),
    WriterRule(NODE, f.CheckpointRegisteredV1, "a job with a lease on itself", "held"),
    WriterRule(NODE, f.LeaseEndedV1, "a lease on itself", "held"),
    WriterRule(AUDIT, f.LedgerSealedV1, "records that no seal covers yet", "any"),
    WriterRule(AUDIT, f.SnapshotTakenV1, "a prefix of the ledger", "any"),
    WriterRule(PROVISIONER, f.InstanceOrderedV1, "an instance", "unknown"),
    WriterRule(PROVISIONER, f.InstanceCreatedV1, "an instance", "ordered"),
    WriterRule(PROVISIONER, f.InstanceRefusedV1, "an instance", "ordered"),
    WriterRule(PROVISIONER, f.InstanceReleasedV1, "an instance", "not ended"),
    WriterRule(PROVISIONER, f.InstanceEndedV1, "an instance", "not ended"),
    WriterRule(PROVISIONER, f.InstanceOrphanEndedV1, "an instance", "unknown"),
    WriterRule(PROVISIONER, f.PriceObservedV1, "an offer of a pool", "any"),
)

_WRITER_OF: dict[type[Fact], str] = {rule.fact: rule.writer for rule in WRITER_RULES}
_WRITER_OF_TYPE = {fact_type(rule.fact): rule.writer for rule in WRITER_RULES}


def writer_kind(by: str) -> str:
    """`node` for `node.<name>`, else the service's own name."""
    return NODE if by.startswith(NODE_WRITER) else by


def may_state(by: str, fact: type[Fact]) -> bool:
    """True if `by` may state facts of this type at all; the reader, which has the state, checks the object."""
    return _WRITER_OF.get(fact) == writer_kind(by)


def may_state_type(by: str, of_type: str) -> bool:
    """`may_state` for the type of a fact, such as `lease.granted.v1`; False for an unknown one."""
    return _WRITER_OF_TYPE.get(of_type) == writer_kind(by)
