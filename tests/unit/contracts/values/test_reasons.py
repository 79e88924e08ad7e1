from __future__ import annotations

from headrace.contracts.values.reasons import REJECT_SENTENCES, WAIT_SENTENCES, RejectReason, WaitReason

# The order is that of R13 and R22: the first that applies is told. It is part of the interface.
REJECTS = (
    "MALFORMED UNKNOWN_TENANT UNKNOWN_QUEUE NOT_ALLOWED RUNTIME_RULE NETWORK_UNSTATED BEYOND_PROFILE EXCEEDS_POOL_CAPACITY "
    "NO_SUITABLE_NODE EXCEEDS_POLICY_LIMIT EXCEEDS_TENANT_LIMIT EXCEEDS_RESERVATION DISK_FULL TOO_MANY_PENDING TOO_FAST ID_REUSED "
    "ID_TOO_OLD QUEUE_DELETED"
)
WAITS = (
    "FROZEN DEPENDENCY OUTSIDE_WINDOW BUDGET_EXHAUSTED AT_ARRAY_LIMIT "
    "WAITING_FOR_PREEMPTION AT_POLICY_LIMIT AT_TENANT_LIMIT RESERVED_SHARE_BUSY "
    "MAINTENANCE VICTIMS_PROTECTED KEPT_FOR_LARGER_JOB BEHIND_HIGHER_RANK NO_HEALTHY_NODE WAITING_FOR_CAPACITY FRAGMENTED "
    "WOULD_EXCEED_RESERVATION NO_FREE_CAPACITY"
)


def test_reasons_stand_in_the_order_of_precedence_and_are_spelled_as_named():
    assert [reason.value for reason in RejectReason] == REJECTS.split()
    assert [reason.value for reason in WaitReason] == WAITS.split()
    assert all(reason.name == reason.value for reason in (*RejectReason, *WaitReason))


def test_every_reason_has_one_sentence_for_people():
    assert list(REJECT_SENTENCES) == list(RejectReason)
    assert list(WAIT_SENTENCES) == list(WaitReason)
    for sentence in (*REJECT_SENTENCES.values(), *WAIT_SENTENCES.values()):
        assert sentence.isprintable()
        assert sentence[0].islower()
        assert not sentence.endswith(".")
