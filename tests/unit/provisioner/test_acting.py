"""Calls to a provider: made while this instance leads, repeated until they are answered, and every answer a fact."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import pytest

from headrace.contracts import facts as f
from headrace.contracts.values.durations import HOUR, MINUTE
from headrace.provisioner import acting
from headrace.provisioner.acting import Acting
from headrace.provisioner.decide import Provisioner
from headrace.provisioner.providers import Created, Listed, NotAuthorized, Order, ProviderAway, Refusal
from headrace.provisioner.reconcile import ABSENT
from tests.unit.provisioner.cloud import BOOT, OFFERS, Cloud, cloud


class FakeProvider:
    """Answers from a table; an exception is raised. `orders`: what was asked for."""

    def __init__(self, answer: object = None) -> None:
        self.answer = answer
        self.orders: list[Order] = []
        self.ended: list[str] = []
        self.listed: list[Listed] | Exception = []
        self.known_prices: dict[str, int] = {}

    async def create(self, order: Order) -> Created | Refusal:
        self.orders.append(order)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or Created(f"p/{order.instance}", 7)

    async def end(self, instance: str, provider_id: str, region: str) -> int:
        self.ended.append(instance)
        if isinstance(self.answer, Exception):
            raise self.answer
        return 9

    async def list(self, regions: object) -> list[Listed]:
        if isinstance(self.listed, Exception):
            raise self.listed
        return self.listed

    async def prices(self, offers: object) -> dict[str, int]:
        return self.known_prices


class Scene:
    """A cloud pool, its provisioner, a provider, and the part that acts."""

    def __init__(self, provider: FakeProvider, **fields: object) -> None:
        self.site = Cloud(**fields)
        self.provider = provider
        self.leads: Callable[[], bool] = lambda: True
        self.acting = self.acting_of(self.site.provisioner)

    def acting_of(self, decider: Provisioner) -> Acting:
        return Acting(
            decider,
            {"local": self.provider},
            self._login,
            lambda: None,
            lambda: self.site.now,
            "inst",
            {"local": ("--run-as", "self")},
        )

    async def _login(self, instance: object) -> dict[str, str]:
        return {"TOKEN": instance.name}

    async def until(self, condition: Callable[[], object]) -> None:
        """Act, and state what was answered, until the condition holds."""
        work = asyncio.ensure_future(self.acting.run(self.leads))
        try:
            async with asyncio.timeout(30):
                while not condition():
                    self.site.decide()
                    await asyncio.sleep(0.005)
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "POLL_EVERY", 0.005)
    monkeypatch.setattr(acting, "RETRY_FIRST", 0.01)


async def test_an_order_is_asked_for_once_and_its_answer_is_a_fact() -> None:
    scene = Scene(FakeProvider(), max_life=HOUR)
    (name,) = scene.site.ordered()
    await scene.until(lambda: scene.site.state.instances[name].created_at)
    (order,) = scene.provider.orders
    assert (order.instance, order.installation, order.pool, order.environment) == (name, "inst", "cloud", {"TOKEN": name})
    assert order.token == scene.site.state.instances[name].token
    assert order.arguments == (
        *("run", "--name", name, "--labels", "pool=cloud", "--on-stop", "end", "--run-as", "self"),
        *("--join-within", f"{2 * BOOT // 1_000_000}s", "--orphan-after", "1800s"),
        *("--max-life", f"{(HOUR + 2 * BOOT) // 1_000_000}s"),
    )


async def test_a_call_is_made_as_soon_as_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "POLL_EVERY", 3_600.0)
    scene = Scene(FakeProvider())
    decider = scene.site.provisioner = acting.Waking(scene.site.state)
    scene.acting = scene.acting_of(decider)
    decider.on_calls = scene.acting.wake
    named = asyncio.Event()
    scene.leads = lambda: not named.set()  # it has looked once, and there was nothing to do
    waiting = asyncio.ensure_future(scene.until(lambda: scene.provider.orders))
    await named.wait()
    scene.site.ordered()
    await waiting
    assert len(scene.provider.orders) == 1


async def test_a_call_without_an_answer_is_made_again_with_the_same_token() -> None:
    scene = Scene(FakeProvider(ProviderAway("no route")))
    (name,) = scene.site.ordered()
    await scene.until(lambda: len(scene.provider.orders) >= 3)
    assert scene.acting.trouble == {"local": "local does not answer: no route"}
    assert (len({order.token for order in scene.provider.orders}), scene.site.state.offers) == (1, {})
    scene.provider.answer = None
    await scene.until(lambda: scene.site.state.instances[name].created_at)
    assert scene.acting.trouble == {}


async def test_credentials_that_are_refused_close_no_offer() -> None:
    scene = Scene(FakeProvider(NotAuthorized("expired")))
    scene.site.ordered()
    await scene.until(lambda: scene.acting.trouble)
    assert scene.acting.trouble == {"local": "local does not accept our credentials: expired"}
    assert scene.site.state.offers == {}


async def test_a_refusal_is_a_fact_that_closes_the_offer() -> None:
    scene = Scene(FakeProvider(Refusal("QUOTA", "no more than 8")))
    (name,) = scene.site.ordered()
    await scene.until(lambda: scene.site.state.instances[name].refused)
    offer = scene.site.state.offers["cloud", "default"]
    assert (offer.code, offer.closed_until, scene.acting.refusals) == ("QUOTA", scene.site.now + MINUTE, 1)


async def test_an_offer_that_the_document_no_longer_has_is_not_asked_for() -> None:
    scene = Scene(FakeProvider())
    (name,) = scene.site.ordered()
    scene.site.end_growth()
    scene.site.law(cloud(offers=(OFFERS[0],)))
    await scene.until(lambda: scene.provider.ended)
    assert (scene.provider.orders, scene.site.state.instances[name].released) == ([], "offer_gone")


async def test_a_list_that_takes_long_delays_no_call() -> None:
    provider = FakeProvider()
    scene = Scene(provider)

    async def endless(regions: object) -> list[Listed]:
        await asyncio.Event().wait()
        return []

    provider.list = endless
    (name,) = scene.site.ordered()
    await scene.until(lambda: scene.site.state.instances[name].created_at)


async def test_a_standby_asks_for_nothing() -> None:
    scene, looks = Scene(FakeProvider()), []

    def leads() -> bool:
        looks.append(1)
        return False

    scene.leads = leads
    scene.site.ordered()
    await scene.until(lambda: len(looks) >= 5)
    assert (len(scene.site.provisioner.calls), scene.provider.orders) == (1, [])


async def test_a_released_instance_is_ended_and_its_end_is_a_fact() -> None:
    scene = Scene(FakeProvider())
    (name,) = scene.site.joined()
    scene.site.append_facts(f.InstanceReleasedV1(instance=name, cause="operator"), by="provisioner")
    await scene.until(lambda: not scene.site.state.instances[name].lives)
    assert (scene.provider.ended, scene.site.state.instances[name].ended) == ([name], "operator")
    assert name not in scene.site.state.nodes


@pytest.mark.parametrize(("made", "cause", "known"), [(True, "no_answer", "p/{}"), (False, "never_made", "")])
async def test_what_is_to_end_without_an_answer_to_its_order_is_looked_for_first(made: bool, cause: str, known: str) -> None:
    scene = Scene(FakeProvider(ProviderAway("no route")))
    (name,) = scene.site.ordered()
    began = scene.site.now
    scene.site.end_growth()
    await scene.until(lambda: scene.provider.orders)
    scene.provider.answer, scene.provider.orders = None, []
    scene.site.wait(HOUR)
    scene.site.append_facts(f.InstanceReleasedV1(instance=name, cause="no_answer"), by="provisioner")
    await scene.until(lambda: len(scene.provider.ended) >= 3)  # lists may show it later
    assert scene.site.state.instances[name].lives
    scene.site.wait(MINUTE if made else ABSENT)
    scene.provider.listed = [Listed(name, f"p/{name}", began + 5)] if made else []
    await scene.until(lambda: scene.site.state.instances[name].ended_at)
    one = scene.site.state.instances[name]
    assert (one.ended, one.provider_id, one.created_at) == (cause, known.format(name), began + 5 if made else 0)
    assert (set(scene.provider.ended), scene.provider.orders, scene.acting.trouble) == ({name}, [], {})


async def test_orphans_are_ended_prices_are_observed_and_a_list_that_fails_ends_nothing() -> None:
    scene = Scene(FakeProvider())
    scene.provider.listed = [Listed("cloud-strange", "p/x", scene.site.now - HOUR), Listed("cloud-new", "p/y", scene.site.now)]
    scene.provider.known_prices = {"default": 5, "unknown": 6}
    await scene.acting.reconcile()
    assert scene.site.decide() == (
        f.PriceObservedV1(pool="cloud", offer="default", price=5, source="local"),
        f.InstanceOrphanEndedV1(provider="local", provider_id="p/x", instance="cloud-strange"),
    )
    assert (scene.provider.ended, scene.acting.orphans_ended) == (["cloud-strange"], 1)
    scene.provider.listed = ProviderAway("timeout")
    await scene.acting.reconcile()
    assert (scene.site.decide(), scene.acting.trouble) == ((), {"local": "local does not list its instances: timeout"})
    scene.provider.listed = OSError("no such folder")
    await scene.acting.reconcile()
    assert (scene.site.decide(), scene.acting.trouble) == (
        *((), {"local": "local cannot be compared with the ledger: no such folder"}),
    )
