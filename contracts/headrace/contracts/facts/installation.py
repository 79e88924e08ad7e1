"""Facts about the installation as a whole, stated by *governance*."""

from __future__ import annotations

from headrace.contracts.facts.fact import Fact


class InstallationLevelV1(Fact, frozen=True, kw_only=True, tag="installation.level.v1"):
    """From here on facts of this level may be stated (`contracts.levels`): everybody has said that they read it. It never falls.

    `release` is the first that reads it: what to install where somebody does not.
    """

    level: int
    release: str
