"""Facts of administration, stated by *governance*: an object was written or removed, a node was cordoned or approved, and so on.

An object's revision is the sequence of the record that last wrote it (R9). One record holds a whole document set, all or
nothing. `author` is `<tenant>.<user>` of the requester; `reason` is the reason given in the request.
"""

from __future__ import annotations

from headrace.contracts.documents.model import Group, Policy, Pool, Profile, Tenant, User
from headrace.contracts.facts.fact import Fact


class AuthoredFact(Fact, frozen=True, kw_only=True):
    """A fact that follows a request of a user."""

    author: str
    reason: str = ""


class TenantAppliedV1(AuthoredFact, frozen=True, kw_only=True, tag="tenant.applied.v1"):
    """The tenant was created or changed; `tenant` is its content."""

    tenant: Tenant


class TenantDeletedV1(AuthoredFact, frozen=True, kw_only=True, tag="tenant.deleted.v1"):
    """The tenant was deleted."""

    name: str


class UserAppliedV1(AuthoredFact, frozen=True, kw_only=True, tag="user.applied.v1"):
    """The user was created or changed. `vouched`: the provider has confirmed that the subject is this person (stated from level 2 on).

    A subject without it counts only for a token whose own claim names the same tenant.
    """

    user: User
    vouched: bool = False


class UserDeletedV1(AuthoredFact, frozen=True, kw_only=True, tag="user.deleted.v1"):
    """The user was deleted."""

    tenant: str
    handle: str


class GroupAppliedV1(AuthoredFact, frozen=True, kw_only=True, tag="group.applied.v1"):
    """The group was created or changed; its members may use its policies' queues from this fact on (R12)."""

    group: Group


class GroupDeletedV1(AuthoredFact, frozen=True, kw_only=True, tag="group.deleted.v1"):
    """The group was deleted."""

    tenant: str
    name: str


class PoolAppliedV1(AuthoredFact, frozen=True, kw_only=True, tag="pool.applied.v1"):
    """The pool was created or changed; nodes belong to it by label."""

    pool: Pool


class PoolDeletedV1(AuthoredFact, frozen=True, kw_only=True, tag="pool.deleted.v1"):
    """The pool was deleted."""

    name: str


class ProfileAppliedV1(AuthoredFact, frozen=True, kw_only=True, tag="profile.applied.v1"):
    """The profile was created or changed."""

    profile: Profile


class ProfileDeletedV1(AuthoredFact, frozen=True, kw_only=True, tag="profile.deleted.v1"):
    """The profile was deleted."""

    tenant: str = ""
    name: str


class PolicyAppliedV1(AuthoredFact, frozen=True, kw_only=True, tag="policy.applied.v1"):
    """The policy was created or changed; its queues are those of the profiles it links (R12)."""

    policy: Policy


class PolicyDeletedV1(AuthoredFact, frozen=True, kw_only=True, tag="policy.deleted.v1"):
    """The policy and its queues were deleted."""

    tenant: str
    name: str


class ObjectClosedV1(AuthoredFact, frozen=True, kw_only=True, tag="object.closed.v1"):
    """Nothing new is granted under the object (R11), until it is applied again or deleted.

    `kind` is one of `documents.KINDS`, `tenant` empty for objects without one. `mode`: `freeze` keeps everything as it is; `drain` deletes
    the object once all that runs under it has ended; `cancel` cancels pending jobs, stops running ones, and then deletes the object.
    """

    kind: str
    tenant: str = ""
    name: str
    mode: str


class CalendarStatedV1(Fact, frozen=True, kw_only=True, tag="calendar.stated.v1"):
    """Offsets of a time zone (R33): from each time on, seconds ahead of UTC. Known until `until`; times in microseconds.

    Stated with the first policy that needs the zone, and again, for the time to come, before it runs out.
    """

    zone: str
    offsets: tuple[tuple[int, int], ...]
    until: int


class NodeCordonedV1(AuthoredFact, frozen=True, kw_only=True, tag="node.cordoned.v1"):
    """Nothing new is granted on the node."""

    node: str


class NodeUncordonedV1(AuthoredFact, frozen=True, kw_only=True, tag="node.uncordoned.v1"):
    """New work is granted on the node again."""

    node: str


class NodeDrainOrderedV1(AuthoredFact, frozen=True, kw_only=True, tag="node.drain_ordered.v1"):
    """Nothing new is granted on the node, and its jobs are stopped by their ladders and requeued (R28). Uncordoning ends it."""

    node: str


class NodeDrainScheduledV1(AuthoredFact, frozen=True, kw_only=True, tag="node.drain_scheduled.v1"):
    """The node will be drained at `begins` (log time), and until then takes only jobs that end before (R41; stated from level 3 on).

    Uncordoning cancels it; stated again, the time is another.
    """

    node: str
    begins: int


class NodeApprovedV1(AuthoredFact, frozen=True, kw_only=True, tag="node.approved.v1"):
    """The limits up to which a node's own statements are believed from now on (stated from level 2 on).

    `labels`: the value `*` stands for any. `gpus`: the number of devices. `isolation`: the highest level. `joins`: False until an operator
    has approved the node, which belongs to no pool before. A node without this fact logs in by the installation's own configuration, and is
    believed.
    """

    node: str
    labels: dict[str, str] = {}
    gpus: int = 0
    isolation: str = "none"
    joins: bool = True


class NodeExcludedV1(Fact, frozen=True, kw_only=True, tag="node.excluded.v1"):
    """The node wrote void records or too much: its connections are ended, and its login is refused until an operator uncordons it.

    Stated from level 2 on, of nodes that log in with a token.
    """

    node: str
    reason: str


class NodeRemovedV1(AuthoredFact, frozen=True, kw_only=True, tag="node.removed.v1"):
    """The node no longer belongs to the installation: it is forgotten as soon as nothing is kept on it (stated from level 3 on).

    A node of the same name that registers later is a new one.
    """

    node: str


class PreemptionForcedV1(AuthoredFact, frozen=True, kw_only=True, tag="preemption.forced.v1"):
    """An operator preempts a job, even inside its reservation (R24): its attempt walks the ladder as if preempted."""

    job: str
    attempt: int


class TenantErasedV1(AuthoredFact, frozen=True, kw_only=True, tag="tenant.erased.v1"):
    """The key of the tenant's texts was destroyed: what its jobs up to now ran (command, environment, image) can never be read again."""

    tenant: str


class UserErasedV1(AuthoredFact, frozen=True, kw_only=True, tag="user.erased.v1"):
    """The key of one user's texts was destroyed: their identity and what their jobs up to now ran can never be read again.

    Their memberships and tokens are void. Answers about the past show `pseudonym` in the place of the handle.
    """

    tenant: str
    handle: str
    pseudonym: str


class TextsLockedV1(Fact, frozen=True, kw_only=True, tag="texts.locked.v1"):
    """The key that encrypts a user's jobs is missing without an erasure. The user's pending jobs do not start until it is restored."""

    tenant: str
    handle: str


class TextsUnlockedV1(Fact, frozen=True, kw_only=True, tag="texts.unlocked.v1"):
    """The key is available again, or all jobs that need it have ended."""

    tenant: str
    handle: str


class TokenCreatedV1(AuthoredFact, frozen=True, kw_only=True, tag="token.created.v1"):
    """A token was issued; it is valid until `expires_at` (microseconds) unless revoked.

    `token` is its id (a ULID); `role` is a `tokens.TokenRole`. `handle` is the user, service account or node that it is for.
    """

    token: str
    role: str
    tenant: str = ""
    handle: str
    expires_at: int


class MembershipClaimedV1(Fact, frozen=True, kw_only=True, tag="membership.claimed.v1"):
    """The groups of the tenant in a user's token of an identity provider: exactly these, until it expires or a newer token is shown.

    `groups`: the tenant's own among the token's groups, sorted. `issued_at`, `until`: the token's times, microseconds since 1970.
    """

    tenant: str
    handle: str
    groups: tuple[str, ...]
    issued_at: int
    until: int


class TokenRevokedV1(AuthoredFact, frozen=True, kw_only=True, tag="token.revoked.v1"):
    """The token with this id is revoked; without an id: all tokens of this bearer issued up to now, by any issuer."""

    token: str = ""
    tenant: str = ""
    handle: str = ""


class NodeConfirmedEmptyV1(AuthoredFact, frozen=True, kw_only=True, tag="node.confirmed_empty.v1"):
    """An operator confirmed that nothing overdue is left on the node or, if the node is away, that nothing is left there (R28, R32)."""

    node: str
