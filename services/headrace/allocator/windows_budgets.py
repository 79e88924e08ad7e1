"""Opens and closes the gates of policies with windows or budgets (R33): a fact whenever a gate has changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts import facts as f
from headrace.domain.queueing.gates import OPEN, gate_at, next_change

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.domain.model.jobs import PolicyState
    from headrace.domain.state.state import State


class _Evaluation(NamedTuple):
    """Inputs of a policy's gate, and the time until which it is unchanged for the same inputs."""

    seen: tuple[object, ...]
    until: int | None


class Gates:
    """The gates of one state. `_evaluations` is a cache: losing it costs time only."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._evaluations: dict[tuple[str, str], _Evaluation] = {}

    def changes(self, now: int) -> Iterator[AnyFact]:
        """Changes of gates up to log time `now`. Grants have to wait until these are in the log."""
        for policy in self._state.terms.timed.values():
            seen = self._seen(policy)
            last = self._evaluations.get(policy.key)
            if last is not None and last.seen == seen and (last.until is None or now < last.until):
                continue
            gate, before = gate_at(self._state, policy, now), policy.gate or OPEN
            if (gate.shut, gate.stops, gate.spent) == (before.shut, before.stops, before.spent):
                self._evaluations[policy.key] = _Evaluation(seen, next_change(self._state, policy, now))
            else:
                self._evaluations.pop(policy.key, None)
                tenant, name = policy.key
                yield f.PolicyGatedV1(tenant=tenant, policy=name, shut=gate.shut, stops=gate.stops, spent=gate.spent)

    def next_change(self, now: int) -> int | None:
        """Time at which the next gate may open or close, if nothing starts or ends before."""
        moments = (self._next_change(policy, now) for policy in self._state.terms.timed.values())
        return min((moment for moment in moments if moment is not None), default=None)

    def _next_change(self, policy: PolicyState, now: int) -> int | None:
        last = self._evaluations.get(policy.key)
        if last is not None and last.seen == self._seen(policy):
            return last.until
        return next_change(self._state, policy, now)

    def _seen(self, policy: PolicyState) -> tuple[object, ...]:
        """Inputs of a gate. Use may return to an earlier value while the meters have run on."""
        ran = ((meter.held, meter.seconds, meter.microseconds) for meter in policy.meters.values())
        return self._state.documents_sequence, self._state.terms.period_ends, *ran
