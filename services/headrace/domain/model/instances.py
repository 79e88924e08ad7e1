"""Instances that pools have created (R38), and the offers by which they do, as the fold has them."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.contracts.values.durations import HOUR

REMEMBERED = HOUR
"""How long an instance that was refused or has ended stays in the state: lists of providers may show it for a while."""


@dataclass(slots=True, eq=False)
class Instance:
    """One order, and what became of it. Its node has the same name. Times of the log; 0: not yet.

    `created_at`, `ended_at`: the provider's times, kept between the order and the record that says them.
    `growth`: the sequence of the request that it is for; 0: for `min_nodes`. `price`: of an hour, in millionths. `refused`: the code.
    `released`: the cause. `emptied_at`: when its node last became empty; `used`: whether it ever held a lease. `ended_at` is also when
    it was refused.
    """

    name: str
    pool: str
    growth: int
    provider: str
    offer: str
    market: str
    price: int
    token: str
    ordered_at: int
    expires: int
    region: str = ""
    provider_id: str = ""
    created_at: int = 0
    joined_at: int = 0
    emptied_at: int = 0
    used: bool = False
    refused: str = ""
    message: str = ""
    interrupted: str = ""
    deadline: int = 0
    released: str = ""
    released_at: int = 0
    ended: str = ""
    ended_at: int = 0

    @property
    def lives(self) -> bool:
        """True from the order until it was refused or has ended."""
        return not self.ended_at

    @property
    def serves(self) -> bool:
        """True while it may still bring room for jobs: it lives, and is not released."""
        return not self.ended_at and not self.released

    @property
    def is_spot(self) -> bool:
        """True if the provider may take it back at any time."""
        return self.market == "spot"

    @property
    def stage(self) -> str:
        """`ordered`, `booting`, `joined`, `leaving`, `refused` or `ended`."""
        if self.ended_at:
            return "refused" if self.refused else "ended"
        if self.released:
            return "leaving"
        return "joined" if self.joined_at else "booting" if self.created_at else "ordered"

    def cost(self, since: int, until: int) -> int:
        """What it cost between two moments, from its creation to its end, in millionths."""
        begins, ends = max(since, self.created_at), min(until, self.ended_at or until)
        return self.price * (ends - begins) // HOUR if self.created_at and ends > begins else 0


@dataclass(slots=True, eq=False)
class Spending:
    """What a pool's instances that have ended cost in the month that began at `month`, in millionths.

    `reached`: the greatest cap that was reached in that month, so that instances had to leave; 0: none.
    """

    month: int
    amount: int = 0
    reached: int = 0


@dataclass(slots=True, eq=False)
class OfferState:
    """What is known of an offer of a pool: `failures` in a row, until when it is closed, and the price observed last (0: none)."""

    failures: int = 0
    closed_until: int = 0
    code: str = ""
    price: int = 0
