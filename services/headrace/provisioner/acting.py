"""Performs what the ledger says is not yet done, one call for each instance at a time, and makes every answer a fact.

Calls are named by the decider, which is asked only while this instance of the service leads and has read everything. A call whose
answer is lost is made again, after a pause that doubles.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import structlog

from headrace.contracts import facts as f
from headrace.contracts.facts.levels import PROVISIONING
from headrace.contracts.values.durations import SECOND
from headrace.domain.placement.offers import closed_for, offers_of
from headrace.provisioner.decide import Provisioner
from headrace.provisioner.providers import NotAuthorized, NotYet, Order, ProviderAway, Refusal, machine_of
from headrace.provisioner.reconcile import ABSENT, compare

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from headrace.contracts.documents.model import Burst
    from headrace.domain.model.instances import Instance
    from headrace.domain.state.state import State
    from headrace.provisioner.decide import Call
    from headrace.provisioner.providers import Listed, Provider

POLL_EVERY = 0.5
"""Seconds after which calls whose pause is over are made; new ones are made at once."""

RECONCILE_EVERY = 60.0
RETRY_FIRST, RETRY_MAX = 1.0, 60.0
ANSWERED = 10.0
"""Seconds in which an answer becomes a fact; then the call is made again."""

WITHIN = 120.0
"""Seconds until a call without an answer is given up, and made again."""


_log = structlog.get_logger("headrace.provisioner")


class Waking(Provisioner):
    """The rules of the provisioner, which say so when a round has named calls. `on_calls`: is called then."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.on_calls: Callable[[], None] = lambda: None

    def decide(self, now: int) -> tuple[f.AnyFact, ...]:
        facts = super().decide(now)
        if self.calls:
            self.on_calls()
        return facts


class Acting:
    """The calls of one service. `on_facts`: wakes the decider. `login`: the environment of an instance's executor. `clock`: microseconds.

    `arguments`: of executors, by provider.
    """

    def __init__(
        self,
        decider: Provisioner,
        providers: Mapping[str, Provider],
        login: Callable[[Instance], Awaitable[dict[str, str]]],
        on_facts: Callable[[], None],
        clock: Callable[[], int],
        installation: str,
        arguments: Mapping[str, tuple[str, ...]],
    ) -> None:
        self._decider = decider
        self._providers = providers
        self._login = login
        self._on_facts = on_facts
        self._clock = clock
        self._installation = installation
        self._arguments = arguments
        self._tasks: dict[Call, asyncio.Task[None]] = {}
        self._pauses: dict[Call, tuple[float, float]] = {}
        self._absent: dict[str, dict[str, int]] = {}
        self._woken = asyncio.Event()
        self.trouble: dict[str, str] = {}
        """Provider to why it does not answer; those that answer are not in it."""
        self.orphans_ended = 0
        self.refusals = 0

    def wake(self) -> None:
        """There are calls to be made."""
        self._woken.set()

    async def run(self, leads: Callable[[], bool]) -> None:
        """Act until cancelled, while `leads`. A list that takes long delays no call."""
        reconciling = asyncio.ensure_future(self._keep_reconciling(leads))
        try:
            while not reconciling.done():
                self._woken.clear()
                if leads():
                    self._begin_calls(asyncio.get_running_loop().time())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(POLL_EVERY):
                        await self._woken.wait()
            reconciling.result()
        finally:
            tasks = [reconciling, *self._tasks.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_reconciling(self, leads: Callable[[], bool]) -> None:
        while True:
            if leads():
                await self.reconcile()
                await asyncio.sleep(RECONCILE_EVERY)
            else:
                await asyncio.sleep(POLL_EVERY)

    def _begin_calls(self, now: float) -> None:
        wanted = self._decider.calls
        self._pauses = {call: pause for call, pause in self._pauses.items() if call in wanted}
        for call in wanted:
            if call not in self._tasks and self._pauses.get(call, (0.0, 0.0))[0] <= now:
                task = self._tasks[call] = asyncio.ensure_future(self._call(call))
                task.add_done_callback(lambda _, call=call: self._tasks.pop(call, None))  # type: ignore[misc]

    async def _call(self, call: Call) -> None:
        instance = self._state.instances.get(call.instance)
        if instance is None:
            return
        try:
            async with asyncio.timeout(WITHIN):
                await (self._create(instance) if call.what == "create" else self._end(instance))
            self.trouble.pop(instance.provider, None)
            self._pauses[call] = asyncio.get_running_loop().time() + ANSWERED, RETRY_FIRST / 2
        except NotYet:
            self.trouble.pop(instance.provider, None)
            self._pause(call, instance.provider, None)
        except (ProviderAway, TimeoutError) as error:
            self._pause(call, instance.provider, error)
        except Exception:  # noqa: BLE001 - one call that fails must not end the others
            _log.exception("call_failed", what=call.what, instance=call.instance)
            self._pause(call, instance.provider, None)

    def _pause(self, call: Call, provider: str, error: Exception | None) -> None:
        if error is not None:
            what = "does not accept our credentials" if isinstance(error, NotAuthorized) else "does not answer"
            self.trouble[provider] = f"{provider} {what}: {str(error) or 'no answer in time'}"
            _log.warning("provider_away", provider=provider, instance=call.instance, reason=str(error))
        pause = min(RETRY_MAX, 2 * self._pauses.get(call, (0.0, RETRY_FIRST / 2))[1])
        self._pauses[call] = asyncio.get_running_loop().time() + pause, pause

    @property
    def _state(self) -> State:
        return self._decider.state

    async def _create(self, instance: Instance) -> None:
        pool = self._state.pools.get(instance.pool)
        burst = pool.document.burst if pool is not None else None
        offer = next((one for one in offers_of(burst) if one.name == instance.offer), None) if burst is not None else None
        if pool is None or burst is None or offer is None:  # the decider releases it
            return
        labels = ",".join(f"{key}={value}" for key, value in sorted(pool.document.selector.items()))
        arguments = ["run", "--name", instance.name, "--labels", labels, "--on-stop", "end"]
        arguments += self._arguments.get(instance.provider, ())
        if burst.node.cpus:
            arguments += ["--cpus", str(burst.node.cpus)]
        if burst.node.memory:
            arguments += ["--memory", f"{burst.node.memory}MiB"]
        boot = burst.boot // SECOND
        arguments += ["--join-within", f"{2 * boot}s", "--orphan-after", f"{burst.orphan_after // SECOND}s"]
        if burst.max_life:  # later than it is released, so that its jobs leave by their ladders
            arguments += ["--max-life", f"{burst.max_life // SECOND + 2 * boot}s"]
        environment = await self._login(instance)
        order = Order(
            instance.name,
            instance.token,
            self._installation,
            instance.pool,
            offer,
            burst.node,
            environment,
            tuple(arguments),
            machine_of(burst, offer),
            2 * boot,
        )
        answer = await self._providers[instance.provider].create(order)
        if isinstance(answer, Refusal):
            self._refused(instance, answer)
        else:
            self._report(f.InstanceCreatedV1(instance=instance.name, provider_id=answer.provider_id, at=answer.at))

    def _refused(self, instance: Instance, why: Refusal) -> None:
        self.refusals += 1
        until = self._clock() + closed_for(self._state.offers.get((instance.pool, instance.offer)))
        _log.warning("refused", instance=instance.name, offer=instance.offer, code=why.code, reason=why.message)
        self._report(f.InstanceRefusedV1(instance=instance.name, code=why.code, message=why.message[:500], closed_until=until))

    async def _end(self, instance: Instance) -> None:
        """End it; one whose order was never answered may have been made all the same, and then has cost money.

        Lists may show what was made a while later, so only after `ABSENT` one that no list has shown was never made.
        """
        provider, name, known = self._providers[instance.provider], instance.name, instance.provider_id
        made: list[f.AnyFact] = []
        if not instance.created_at:
            found = [one for one in await provider.list([instance.region]) if one.instance == name]
            made = [f.InstanceCreatedV1(instance=name, provider_id=one.provider_id, at=one.created_at) for one in found[:1]]
            known = found[0].provider_id if found else ""
        at = await provider.end(name, known, instance.region)
        if not known and self._clock() < instance.released_at + ABSENT:
            raise NotYet(f"no list shows {name}, which may come")
        cause = instance.released if known else "never_made"
        self._report(*made, f.InstanceEndedV1(instance=name, provider_id=known, cause=cause, at=at))

    async def reconcile(self) -> None:
        """Compare each provider's list with the ledger, and end orphans."""
        if self._state.terms.level < PROVISIONING:
            return
        for name, provider in self._providers.items():
            if not (regions := regions_of(self._state, name)):  # no pool uses it
                self.trouble.pop(name, None)
                continue
            try:
                async with asyncio.timeout(WITHIN):
                    listed = await provider.list(regions)
                    observed = await self._observed(name, provider)
                self.trouble.pop(name, None)
                await self._compare(name, provider, listed, observed)
            except (ProviderAway, TimeoutError) as error:
                self.trouble[name] = f"{name} does not list its instances: {error}"
                _log.warning("list_failed", provider=name, reason=str(error))
            except Exception as error:  # noqa: BLE001 - one provider that fails must not end the service
                self.trouble[name] = f"{name} cannot be compared with the ledger: {error}"
                _log.exception("comparison_failed", provider=name)

    async def _compare(
        self, name: str, provider: Provider, listed: Sequence[Listed], observed: Sequence[f.PriceObservedV1]
    ) -> None:
        found = compare(self._state, name, listed, self._absent.get(name, {}), self._clock())
        self._absent[name] = found.absent
        self._report(*found.facts, *observed)
        for orphan in found.orphans:
            try:
                await provider.end(orphan.instance, orphan.provider_id, orphan.region)
            except ProviderAway as error:
                _log.warning("orphan_left", instance=orphan.instance, reason=str(error))
                continue
            self.orphans_ended += 1
            _log.warning("orphan_ended", instance=orphan.instance, provider_id=orphan.provider_id)
            self._report(f.InstanceOrphanEndedV1(provider=name, provider_id=orphan.provider_id, instance=orphan.instance))

    async def _observed(self, name: str, provider: Provider) -> list[f.PriceObservedV1]:
        found = []
        for pool, burst in bursts_of(self._state, name):
            offers = offers_of(burst)
            prices = await provider.prices(offers)
            priced = (offer.name for offer in offers if offer.name in prices)
            found += [f.PriceObservedV1(pool=pool, offer=offer, price=prices[offer], source=name) for offer in priced]
        return found

    def _report(self, *facts: f.AnyFact) -> None:
        if facts:
            self._decider.add_facts(*facts)
            self._on_facts()


def bursts_of(state: State, provider: str) -> list[tuple[str, Burst]]:
    """The pools whose nodes this provider creates, with how they grow, by name."""
    pools = ((name, pool.document.burst) for name, pool in sorted(state.pools.items()))
    return [(name, burst) for name, burst in pools if burst is not None and burst.provider == provider]


def regions_of(state: State, provider: str) -> list[str]:
    """The regions in which a provider may have instances of ours, sorted; empty if it is not used."""
    offered = {offer.region for _, burst in bursts_of(state, provider) for offer in offers_of(burst)}
    return sorted(offered | {one.region for one in state.instances.values() if one.provider == provider})
