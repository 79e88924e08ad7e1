"""Facts: what happened, in the past tense, noun first (`lease.granted.v1`). The ledger contains facts only.

A published type never changes its meaning. A new field has a default; a new meaning is a new version with an upcaster.
Adding a fact: the struct here, the union below, its writers in `writers`, its fold in `headrace.domain`, a golden file, a
scenario, and the glossary. Times called `at` are of the stating node's own clock, in microseconds since 1970 (R37);
everything else uses the time of the record (R34).
"""

from __future__ import annotations

from headrace.contracts.facts.admission import (
    AccountNumberedV1,
    JobAdmittedV1,
    JobCancelRequestedV1,
    JobRejectedV1,
    JobRequeueRequestedV1,
    RefusalsCountedV1,
    WishesJudgedV1,
    WishRefusedV1,
)
from headrace.contracts.facts.allocation import (
    GrowthEndedV1,
    GrowthRequestedV1,
    HoldLiftedV1,
    HoldPlacedV1,
    JobDismissedV1,
    JobEndedV1,
    JobMatchedV1,
    JobRequeuedV1,
    LeaseGrantedV1,
    LeaseRevokedV1,
    MaintenanceStatedV1,
    MixLearnedV1,
    MoveOrderedV1,
    NodeCheckOrderedV1,
    NodeDrainBeganV1,
    NodeSetAsideV1,
    PolicyGatedV1,
    ResumeOrderedV1,
    StopOrderedV1,
)
from headrace.contracts.facts.audit import LedgerSealedV1, SnapshotTakenV1
from headrace.contracts.facts.fact import Fact, fact_type
from headrace.contracts.facts.governance import (
    CalendarStatedV1,
    GroupAppliedV1,
    GroupDeletedV1,
    MembershipClaimedV1,
    NodeApprovedV1,
    NodeConfirmedEmptyV1,
    NodeCordonedV1,
    NodeDrainOrderedV1,
    NodeDrainScheduledV1,
    NodeExcludedV1,
    NodeRemovedV1,
    NodeUncordonedV1,
    ObjectClosedV1,
    PolicyAppliedV1,
    PolicyDeletedV1,
    PoolAppliedV1,
    PoolDeletedV1,
    PreemptionForcedV1,
    ProfileAppliedV1,
    ProfileDeletedV1,
    TenantAppliedV1,
    TenantDeletedV1,
    TenantErasedV1,
    TextsLockedV1,
    TextsUnlockedV1,
    TokenCreatedV1,
    TokenRevokedV1,
    UserAppliedV1,
    UserDeletedV1,
    UserErasedV1,
)
from headrace.contracts.facts.installation import InstallationLevelV1, StorageStatedV1
from headrace.contracts.facts.nodes import (
    CheckpointRegisteredV1,
    DeviceDrainedV1,
    DeviceReturnedV1,
    LeaseEndedV1,
    LeaseOverranV1,
    LeaseResumedV1,
    LeaseRungV1,
    LeaseStartedV1,
    LeaseSuspendedV1,
    NodeCheckedV1,
    NodeRegisteredV1,
    NodeStoppedV1,
)
from headrace.contracts.facts.preemption import (
    LeaseIdledV1,
    LeaseOverdueV1,
    LeaseUsedV1,
    NodeLostV1,
    NominationEndedV1,
    PreemptionDismissedV1,
    PreemptionNoneV1,
    PreemptionOrderedV1,
    PreemptionProposedV1,
    PreemptionSettledV1,
    ReclaimOpenedV1,
)
from headrace.contracts.facts.provisioning import (
    InstanceCreatedV1,
    InstanceEndedV1,
    InstanceInterruptedV1,
    InstanceOrderedV1,
    InstanceOrphanEndedV1,
    InstanceRefusedV1,
    InstanceReleasedV1,
    PriceObservedV1,
)

AnyFact = (
    TenantAppliedV1
    | TenantDeletedV1
    | UserAppliedV1
    | UserDeletedV1
    | GroupAppliedV1
    | GroupDeletedV1
    | PoolAppliedV1
    | PoolDeletedV1
    | ProfileAppliedV1
    | ProfileDeletedV1
    | PolicyAppliedV1
    | PolicyDeletedV1
    | ObjectClosedV1
    | CalendarStatedV1
    | NodeCordonedV1
    | NodeUncordonedV1
    | NodeDrainOrderedV1
    | NodeDrainScheduledV1
    | NodeConfirmedEmptyV1
    | NodeApprovedV1
    | NodeExcludedV1
    | NodeRemovedV1
    | TenantErasedV1
    | MembershipClaimedV1
    | UserErasedV1
    | TextsLockedV1
    | TextsUnlockedV1
    | TokenCreatedV1
    | TokenRevokedV1
    | PreemptionForcedV1
    | AccountNumberedV1
    | JobAdmittedV1
    | JobRejectedV1
    | WishRefusedV1
    | JobCancelRequestedV1
    | JobRequeueRequestedV1
    | RefusalsCountedV1
    | WishesJudgedV1
    | LeaseGrantedV1
    | LeaseRevokedV1
    | PolicyGatedV1
    | NodeDrainBeganV1
    | MaintenanceStatedV1
    | GrowthRequestedV1
    | GrowthEndedV1
    | StopOrderedV1
    | ResumeOrderedV1
    | MoveOrderedV1
    | JobRequeuedV1
    | JobEndedV1
    | JobDismissedV1
    | JobMatchedV1
    | NodeSetAsideV1
    | NodeCheckOrderedV1
    | ReclaimOpenedV1
    | PreemptionProposedV1
    | PreemptionNoneV1
    | PreemptionOrderedV1
    | PreemptionDismissedV1
    | HoldPlacedV1
    | HoldLiftedV1
    | NominationEndedV1
    | MixLearnedV1
    | PreemptionSettledV1
    | LeaseOverdueV1
    | LeaseIdledV1
    | LeaseUsedV1
    | NodeLostV1
    | NodeRegisteredV1
    | NodeStoppedV1
    | NodeCheckedV1
    | DeviceDrainedV1
    | DeviceReturnedV1
    | LeaseOverranV1
    | LeaseStartedV1
    | LeaseRungV1
    | LeaseSuspendedV1
    | LeaseResumedV1
    | CheckpointRegisteredV1
    | LeaseEndedV1
    | LedgerSealedV1
    | SnapshotTakenV1
    | InstallationLevelV1
    | StorageStatedV1
    | InstanceOrderedV1
    | InstanceCreatedV1
    | InstanceRefusedV1
    | InstanceInterruptedV1
    | InstanceReleasedV1
    | InstanceEndedV1
    | InstanceOrphanEndedV1
    | PriceObservedV1
)
"""Every fact that this version can read."""

__all__ = [
    "AccountNumberedV1",
    "AnyFact",
    "CalendarStatedV1",
    "CheckpointRegisteredV1",
    "DeviceDrainedV1",
    "DeviceReturnedV1",
    "Fact",
    "GroupAppliedV1",
    "GroupDeletedV1",
    "GrowthEndedV1",
    "GrowthRequestedV1",
    "HoldLiftedV1",
    "HoldPlacedV1",
    "InstallationLevelV1",
    "InstanceCreatedV1",
    "InstanceEndedV1",
    "InstanceInterruptedV1",
    "InstanceOrderedV1",
    "InstanceOrphanEndedV1",
    "InstanceRefusedV1",
    "InstanceReleasedV1",
    "JobAdmittedV1",
    "JobCancelRequestedV1",
    "JobDismissedV1",
    "JobEndedV1",
    "JobMatchedV1",
    "JobRejectedV1",
    "JobRequeueRequestedV1",
    "JobRequeuedV1",
    "LeaseEndedV1",
    "LeaseGrantedV1",
    "LeaseIdledV1",
    "LeaseOverdueV1",
    "LeaseOverranV1",
    "LeaseResumedV1",
    "LeaseRevokedV1",
    "LeaseRungV1",
    "LeaseStartedV1",
    "LeaseSuspendedV1",
    "LeaseUsedV1",
    "LedgerSealedV1",
    "MaintenanceStatedV1",
    "MembershipClaimedV1",
    "MixLearnedV1",
    "MoveOrderedV1",
    "NodeApprovedV1",
    "NodeCheckOrderedV1",
    "NodeCheckedV1",
    "NodeConfirmedEmptyV1",
    "NodeCordonedV1",
    "NodeDrainBeganV1",
    "NodeDrainOrderedV1",
    "NodeDrainScheduledV1",
    "NodeExcludedV1",
    "NodeLostV1",
    "NodeRegisteredV1",
    "NodeRemovedV1",
    "NodeSetAsideV1",
    "NodeStoppedV1",
    "NodeUncordonedV1",
    "NominationEndedV1",
    "ObjectClosedV1",
    "PolicyAppliedV1",
    "PolicyDeletedV1",
    "PolicyGatedV1",
    "PoolAppliedV1",
    "PoolDeletedV1",
    "PreemptionDismissedV1",
    "PreemptionForcedV1",
    "PreemptionNoneV1",
    "PreemptionOrderedV1",
    "PreemptionProposedV1",
    "PreemptionSettledV1",
    "PriceObservedV1",
    "ProfileAppliedV1",
    "ProfileDeletedV1",
    "ReclaimOpenedV1",
    "RefusalsCountedV1",
    "ResumeOrderedV1",
    "SnapshotTakenV1",
    "StopOrderedV1",
    "StorageStatedV1",
    "TenantAppliedV1",
    "TenantDeletedV1",
    "TenantErasedV1",
    "TextsLockedV1",
    "TextsUnlockedV1",
    "TokenCreatedV1",
    "TokenRevokedV1",
    "UserAppliedV1",
    "UserDeletedV1",
    "UserErasedV1",
    "WishRefusedV1",
    "WishesJudgedV1",
    "fact_type",
]
