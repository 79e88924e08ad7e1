"""Opening and shutting the gates of policies that have windows or budgets (R33): a fact whenever what they say has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts import facts as f
from headrace.domain.queueing.gates import OPEN, gate_at, next_look

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.domain.model.jobs import PolicyState
    from headrace.domain.state.state import State


class _Look(NamedTuple):
    """What a policy's gate was found to depend on, and until when it stays as it is if that does."""

    seen: tuple[object, ...]
    until: int | None


class Gates:
    """The gates of one state. `_looks` are a memo, not a truth: forgetting them costs time only."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._looks: dict[tuple[str, str], _Look] = {}

    def changes(self, now: int) -> Iterator[AnyFact]:
        """What gates have come to say by log time `now`. Before that is in the log nothing is to be granted."""
        for policy in self._state.terms.timed.values():
            seen = self._seen(policy)
            last = self._looks.get(policy.key)
            if last is not None and last.seen == seen and (last.until is None or now < last.until):
                continue
            gate, before = gate_at(self._state, policy, now), policy.gate or OPEN
            if (gate.shut, gate.stops, gate.spent) == (before.shut, before.stops, before.spent):
                self._looks[policy.key] = _Look(seen, next_look(self._state, policy, now))
            else:
                self._looks.pop(policy.key, None)
                tenant, name = policy.key
                yield f.PolicyGatedV1(tenant=tenant, policy=name, shut=gate.shut, stops=gate.stops, spent=gate.spent)

    def next_look(self, now: int) -> int | None:
        """When the next gate may open or shut, if nothing starts or ends before."""
        looks = (self._next_look(policy, now) for policy in self._state.terms.timed.values())
        return min((look for look in looks if look is not None), default=None)

    def _next_look(self, policy: PolicyState, now: int) -> int | None:
        last = self._looks.get(policy.key)
        if last is not None and last.seen == self._seen(policy):
            return last.until
        return next_look(self._state, policy, now)

    def _seen(self, policy: PolicyState) -> tuple[object, ...]:
        """What is charged goes up and comes back to what it was; the meters have run on meanwhile."""
        ran = ((meter.held, meter.seconds, meter.rest) for meter in policy.meters.values())
        return self._state.documents_sequence, self._state.terms.period_ends, *ran
