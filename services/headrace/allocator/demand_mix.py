"""States pools' usual demand when it has changed (R20): by counts, independent of time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts import facts as f

if TYPE_CHECKING:
    from headrace.domain.state.state import State


class DemandLearning:
    """Pools whose demand mix has to be stated again. It caches how long each mix surely holds; losing the cache costs time only."""

    def __init__(self) -> None:
        self._holds: dict[str, tuple[int, int]] = {}

    def news(self, state: State) -> list[f.MixLearnedV1]:
        """A fact for each pool whose mix has changed, by name."""
        news = []
        for name, pool in state.pools.items():
            mix = pool.mix
            stated_at, until = self._holds.get(name, (-1, 0))
            if stated_at == mix.stated_at and mix.asked < until:
                continue
            until = mix.holds_until()
            if until <= mix.asked:
                news.append(f.MixLearnedV1(pool=name, requests=mix.usual()))
            else:
                self._holds[name] = mix.stated_at, until
        return sorted(news, key=lambda fact: fact.pool)
