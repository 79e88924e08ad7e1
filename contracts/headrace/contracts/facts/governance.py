"""Facts of administration, stated by *governance*: an object was written or removed, a node was set aside.

An object's revision is the sequence of the record that last wrote it (R9). One record holds a whole document set, all or
nothing. `author` is `<tenant>.<user>` of who asked; `reason` is what they gave as the reason.
"""

from __future__ import annotations

from headrace.contracts.documents.model import Group, Policy, Pool, Profile, Tenant, User
from headrace.contracts.facts.fact import Fact


class AuthoredFact(Fact, frozen=True, kw_only=True):
    """A fact that somebody asked for."""

    author: str
    reason: str = ""


class TenantAppliedV1(AuthoredFact, frozen=True, kw_only=True, tag="tenant.applied.v1"):
    """The tenant is now as written."""

    tenant: Tenant


class TenantDeletedV1(AuthoredFact, frozen=True, kw_only=True, tag="tenant.deleted.v1"):
    """The tenant is gone."""

    name: str


class UserAppliedV1(AuthoredFact, frozen=True, kw_only=True, tag="user.applied.v1"):
    """The user is now as written. `vouched`: the provider has said that the subject is this person (stated from level 2 on).

    One that is not counts only for a token whose own claim names the same tenant.
    """

    user: User
    vouched: bool = False


class UserDeletedV1(AuthoredFact, frozen=True, kw_only=True, tag="user.deleted.v1"):
    """The user is gone."""

    tenant: str
    handle: str


class GroupAppliedV1(AuthoredFact, frozen=True, kw_only=True, tag="group.applied.v1"):
    """The group is now as written; its policies' queues are open to its members by this act alone (R12)."""

    group: Group


class GroupDeletedV1(AuthoredFact, frozen=True, kw_only=True, tag="group.deleted.v1"):
    """The group is gone."""

    tenant: str
    name: str


class PoolAppliedV1(AuthoredFact, frozen=True, kw_only=True, tag="pool.applied.v1"):
    """The pool is now as written; nodes belong to it by label."""

    pool: Pool


class PoolDeletedV1(AuthoredFact, frozen=True, kw_only=True, tag="pool.deleted.v1"):
    """The pool is gone."""

    name: str


class ProfileAppliedV1(AuthoredFact, frozen=True, kw_only=True, tag="profile.applied.v1"):
    """The profile is now as written."""

    profile: Profile


class ProfileDeletedV1(AuthoredFact, frozen=True, kw_only=True, tag="profile.deleted.v1"):
    """The profile is gone."""

    tenant: str = ""
    name: str


class PolicyAppliedV1(AuthoredFact, frozen=True, kw_only=True, tag="policy.applied.v1"):
    """The policy is now as written; its queues are those it links (R12)."""

    policy: Policy


class PolicyDeletedV1(AuthoredFact, frozen=True, kw_only=True, tag="policy.deleted.v1"):
    """The policy and its queues are gone."""

    tenant: str
    name: str


class ObjectClosedV1(AuthoredFact, frozen=True, kw_only=True, tag="object.closed.v1"):
    """Nothing new is granted under the object (R11), until it is applied again or gone.

    `kind` is one of `documents.KINDS`, `tenant` empty for what no tenant owns. `mode`: `freeze` keeps everything as it is; `drain` deletes
    the object once what runs under it has ended; `cancel` cancels what waits, stops what runs, and then deletes it.
    """

    kind: str
    tenant: str = ""
    name: str
    mode: str


class CalendarStatedV1(Fact, frozen=True, kw_only=True, tag="calendar.stated.v1"):
    """What clocks show in a time zone (R33): from each moment on, so many seconds more than UTC. Known until `until`; microseconds.

    Stated with the first policy that needs the zone, and again, for the time to come, before it runs out.
    """

    zone: str
    offsets: tuple[tuple[int, int], ...]
    until: int


class NodeCordonedV1(AuthoredFact, frozen=True, kw_only=True, tag="node.cordoned.v1"):
    """Nothing new is granted on the node."""

    node: str


class NodeUncordonedV1(AuthoredFact, frozen=True, kw_only=True, tag="node.uncordoned.v1"):
    """The node takes new work again."""

    node: str


class NodeDrainOrderedV1(AuthoredFact, frozen=True, kw_only=True, tag="node.drain_ordered.v1"):
    """Nothing new is granted on the node, and what is there leaves by its ladder and is requeued (R28). Uncordoning ends it."""

    node: str


class NodeApprovedV1(AuthoredFact, frozen=True, kw_only=True, tag="node.approved.v1"):
    """How much of what a node says of itself is believed from now on (stated from level 2 on).

    `labels`: the value `*` stands for any. `gpus`: the number of devices. `isolation`: the highest level. `joins`: False until an operator
    has approved something: the node is in no pool. A node without such a fact logs in by the installation's own configuration, and is
    believed.
    """

    node: str
    labels: dict[str, str] = {}
    gpus: int = 0
    isolation: str = "none"
    joins: bool = True


class NodeExcludedV1(Fact, frozen=True, kw_only=True, tag="node.excluded.v1"):
    """The node wrote void records or too much: its connections are ended, and it is not let in until an operator uncordons it.

    Stated from level 2 on, of nodes that log in with a token.
    """

    node: str
    reason: str


class PreemptionForcedV1(AuthoredFact, frozen=True, kw_only=True, tag="preemption.forced.v1"):
    """An operator takes what a job holds, though it may be inside a reservation (R24): its attempt walks the ladder as if preempted."""

    job: str
    attempt: int


class TenantErasedV1(AuthoredFact, frozen=True, kw_only=True, tag="tenant.erased.v1"):
    """The key of the tenant's texts was destroyed: what its jobs up to now ran (command, environment, image) can never be read again."""

    tenant: str


class UserErasedV1(AuthoredFact, frozen=True, kw_only=True, tag="user.erased.v1"):
    """The person's own key was destroyed: who they were and what their jobs up to now ran can never be read again.

    What they were given counts no more. Whoever looks back reads `pseudonym` in the place of the handle.
    """

    tenant: str
    handle: str
    pseudonym: str


class TextsLockedV1(Fact, frozen=True, kw_only=True, tag="texts.locked.v1"):
    """The key that encrypts a user's jobs is missing without an erasure. The user's pending jobs do not start until it is restored."""

    tenant: str
    handle: str


class TextsUnlockedV1(Fact, frozen=True, kw_only=True, tag="texts.unlocked.v1"):
    """That key is there again, or no job that needs it is left."""

    tenant: str
    handle: str


class TokenCreatedV1(AuthoredFact, frozen=True, kw_only=True, tag="token.created.v1"):
    """Somebody was given a token, which is good until `expires_at` (microseconds) and as long as it is not revoked.

    `token` is its id (a ULID); `role` is a `tokens.TokenRole`. `handle` is the user, service account or node that it speaks for.
    """

    token: str
    role: str
    tenant: str = ""
    handle: str
    expires_at: int


class MembershipClaimedV1(Fact, frozen=True, kw_only=True, tag="membership.claimed.v1"):
    """A provider's token said in which groups of the tenant its bearer is: these, and no others, until it ends or a newer one speaks.

    `groups`: of those that the token named, the tenant's own, sorted. `issued_at`, `until`: the token's, microseconds since 1970.
    """

    tenant: str
    handle: str
    groups: tuple[str, ...]
    issued_at: int
    until: int


class TokenRevokedV1(AuthoredFact, frozen=True, kw_only=True, tag="token.revoked.v1"):
    """The token of that id is good no more; without an id: none that this bearer was given up to now, by whichever issuer."""

    token: str = ""
    tenant: str = ""
    handle: str = ""


class NodeConfirmedEmptyV1(AuthoredFact, frozen=True, kw_only=True, tag="node.confirmed_empty.v1"):
    """An operator has seen that nothing runs on the node any more of what is overdue there, or, if it is away, of anything (R28, R32)."""

    node: str
