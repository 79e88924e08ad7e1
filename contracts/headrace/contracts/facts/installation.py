"""Facts about the installation as a whole, stated by *governance*."""

from __future__ import annotations

from headrace.contracts.facts.fact import Fact, Whole


class InstallationLevelV1(Fact, frozen=True, kw_only=True, tag="installation.level.v1"):
    """From here on facts of this level may be stated (`contracts.facts.levels`): every process has reported that it reads it.

    The level never falls. `release` is the first release that reads it: what to install in place of an older one.
    """

    level: int
    release: str


class StorageStatedV1(Fact, frozen=True, kw_only=True, tag="storage.stated.v1"):
    """Storage of the NATS server with the least room, in bytes; stated when it becomes scarce and when it no longer is.

    While it is `scarce`, jobs are not admitted: the rest is kept for the records of running jobs, for administrators, and for making room.
    Stated from level 2 on.
    """

    scarce: bool
    used: Whole
    limit: Whole
