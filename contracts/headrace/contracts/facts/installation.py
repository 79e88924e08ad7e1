"""Facts about the installation as a whole, stated by *governance*."""

from __future__ import annotations

from headrace.contracts.facts.fact import Fact, Whole


class InstallationLevelV1(Fact, frozen=True, kw_only=True, tag="installation.level.v1"):
    """From here on facts of this level may be stated (`contracts.facts.levels`): everybody has said that they read it. It never falls.

    `release` is the first that reads it: what to install where somebody does not.
    """

    level: int
    release: str


class StorageStatedV1(Fact, frozen=True, kw_only=True, tag="storage.stated.v1"):
    """Storage of the NATS server with the least room, in bytes; stated when it becomes scarce and when it no longer is.

    While it is `scarce`, no job is admitted: what is left is kept for the records of what runs, for administrators, and for making room.
    Stated from level 2 on.
    """

    scarce: bool
    used: Whole
    limit: Whole
