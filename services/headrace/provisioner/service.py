"""The provisioner on the bus: its decider in the service loop, the calls to providers, and requests of operators."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, NamedTuple

from headrace.archive import atomic_files
from headrace.bus.log import LogUnavailable
from headrace.bus.process import Service
from headrace.bus.variables import INSTALLATION, LOCAL_JOBS, NODES_URL, PASSWORD, URL, USER
from headrace.contracts.facts import InstanceReleasedV1
from headrace.contracts.facts.writers import GOVERNANCE, PROVISIONER
from headrace.contracts.messages.burst import (
    CheckAnswer,
    CheckRequest,
    EndInstanceRequest,
    InstanceTokenRequest,
    OfferCheck,
)
from headrace.contracts.messages.queries import Answer, ApplyAnswer, Change
from headrace.contracts.messages.tokens import TokenAnswer
from headrace.contracts.transport.codec import Malformed, decode, encode
from headrace.contracts.transport.subjects import query
from headrace.contracts.values.ids import is_token
from headrace.contracts.values.money import millionths
from headrace.domain.placement.offers import offers_of, spent
from headrace.provisioner.acting import Acting, Waking
from headrace.provisioner.providers import OfferAsked, Provider, ProviderAway, ec2, machine_of, ssh
from headrace.provisioner.providers.local import DIRECTORY, NODES, LocalProvider
from headrace.provisioner.providers.local import NAME as LOCAL
from headrace.service.answering import Handler, Refused
from headrace.service.deciding import Deciding
from headrace.service.fold import wall_clock
from headrace.service.hosting import LedgerFollower, Part, Work
from headrace.service.task_group import run_until_first_ends

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from headrace.domain.model.instances import Instance
    from headrace.health.health import Health
    from headrace.provisioner.decide import Provisioner

LOGIN_WITHIN = 5.0
CHECK_WITHIN = 20.0


async def prepare(service: Service, follower: LedgerFollower) -> Work:
    deciding = Deciding(service, follower, PROVISIONER, Waking)
    decider = deciding.decider
    if not isinstance(decider, Waking):
        raise TypeError("the calls are those of the provisioner")
    known = await providers_of(service)
    acting = Acting(
        decider,
        known.by_name,
        Logins(service).environment,
        deciding.wake,
        wall_clock,
        known.installation,
        known.arguments,
    )
    decider.on_calls = acting.wake
    show(service.health, acting, decider)
    handlers = Requests(deciding, decider, known.by_name).handlers()

    def leads() -> bool:
        return deciding.caught_up.is_set() and deciding.leads

    return lambda: run_until_first_ends(deciding.run(handlers), acting.run(leads))


PART = Part(prepare)


class Providers(NamedTuple):
    """The providers by name, with the arguments of executors on their instances. `installation`: the tag of all instances."""

    installation: str
    by_name: dict[str, Provider]
    arguments: dict[str, tuple[str, ...]]


async def providers_of(service: Service) -> Providers:
    """The providers that there are."""
    directory, jobs = service.data / DIRECTORY, service.environment.get(LOCAL_JOBS, "")
    installation = service.environment.get(INSTALLATION, "") or await asyncio.to_thread(installation_id, directory)
    by_name: dict[str, Provider] = {
        LOCAL: LocalProvider(directory / LOCAL, service.data / NODES, installation, why_not_local(jobs)),
        ec2.NAME: ec2.Ec2Provider(installation),
        ssh.NAME: ssh.SshProvider(directory / ssh.NAME, installation),
    }
    return Providers(installation, by_name, {LOCAL: ("--run-as", jobs or "self", "--limits", "off"), ec2.NAME: ec2.ARGUMENTS})


def installation_id(directory: Path) -> str:
    """The tag of this installation, made once; it lies outside of backups, so that a clone gets one of its own."""
    path = directory / "installation"
    directory.mkdir(0o700, parents=True, exist_ok=True)
    if not path.exists():
        atomic_files.write(path, secrets.token_hex(8).encode(), 0o600)
    return path.read_text("ascii").strip()


def why_not_local(jobs: str) -> str:
    """Why jobs of local instances may not run on this machine; empty if they may. `jobs`: as whom they run."""
    if jobs in ("own", "self"):
        return ""
    return "instances of provider local run only beside `headrace up`, on a machine that keeps jobs apart or trusts them"


class Logins:
    """Logins of instances: governance makes a node's token for each, good for what its pool promises."""

    def __init__(self, service: Service) -> None:
        self._connection = service.connection
        self._url = service.environment.get(URL, "")
        self._url_of_nodes = service.environment.get(NODES_URL, "") or self._url

    async def environment(self, instance: Instance) -> dict[str, str]:
        """Variables of the instance's executor. Raises ProviderAway while governance does not answer."""
        subject = query(GOVERNANCE, "instance-token", "default", PROVISIONER)
        try:
            message = await self._connection.ask(
                subject, encode(InstanceTokenRequest(instance=instance.name)), within=LOGIN_WITHIN
            )
            answer = decode(message.data, Answer)
            if answer.code:
                raise ProviderAway(f"its login: {answer.error}")
            token = decode(bytes(answer.body), TokenAnswer).token
        except (LogUnavailable, Malformed) as error:
            raise ProviderAway(f"its login: {error}") from None
        url = self._url if instance.provider == LOCAL else self._url_of_nodes
        return {URL: url, USER: f"node_{instance.name}", PASSWORD: token}


class Requests:
    """What operators ask, through the API: to end an instance, and whether a pool's offers would do."""

    def __init__(self, deciding: Deciding, decider: Provisioner, providers: Mapping[str, Provider]) -> None:
        self._deciding = deciding
        self._decider = decider
        self._providers = providers

    def handlers(self) -> dict[str, Handler]:
        """Handlers by request, except `status`."""
        return {"end": self.end, "check": self.check}

    async def check(self, tenant: str, user: str, payload: bytes) -> CheckAnswer:  # noqa: ARG002 - the answer is the same for all
        """Ask the pool's provider what it would say of orders; nothing is made."""
        request = decode(payload, CheckRequest)
        await self._deciding.caught_up.wait()
        pool = self._decider.state.pools.get(request.pool) if is_token(request.pool) else None
        burst = pool.document.burst if pool is not None else None
        provider = self._providers.get(burst.provider) if burst is not None else None
        if burst is None or provider is None:
            raise Refused("NOT_FOUND", f"no provider creates nodes of pool {request.pool[:80]!r}; see `headrace burst offers`")
        offers = offers_of(burst)
        try:
            async with asyncio.timeout(CHECK_WITHIN):
                found = await provider.check([OfferAsked(offer, machine_of(burst, offer)) for offer in offers])
        except (ProviderAway, TimeoutError) as error:
            found = dict.fromkeys((offer.name for offer in offers), str(error) or f"no answer within {CHECK_WITHIN:g} s")
        checks = tuple(OfferCheck(offer=offer.name, problem=found.get(offer.name, "")[:500]) for offer in offers)
        return CheckAnswer(pool=request.pool, provider=burst.provider, offers=checks)

    async def end(self, tenant: str, user: str, payload: bytes) -> ApplyAnswer:
        """Release an instance: its jobs leave by their ladders, then it is ended."""
        request = decode(payload, EndInstanceRequest)
        await self._deciding.caught_up.wait()
        one = self._decider.state.instances.get(request.instance) if is_token(request.instance) else None
        if one is None or not one.lives:
            raise Refused(
                "NOT_FOUND", f"no instance {request.instance[:80]!r} lives; `headrace burst list` shows those that do"
            )
        if not self._deciding.leads:
            raise Refused("UNAVAILABLE", "this instance of the provisioner is a standby; try again")
        if one.serves:
            self._decider.add_facts(InstanceReleasedV1(instance=one.name, cause="operator", by=f"{tenant}.{user}"))
            self._deciding.wake()
        node = self._decider.state.nodes.get(one.name)
        jobs = len({lease.job.key for lease in node.leases.values()}) if node is not None else 0
        change = Change(kind="instance", name=one.name, action="delete" if one.serves else "keep")
        return ApplyAnswer(changes=(change,), applied=True, running=jobs)


def show(health: Health, acting: Acting, decider: Provisioner) -> None:
    """Register the metrics: instances by stage, those that are late, closed offers, providers that are away."""
    state, metrics = decider.state, health.metrics

    def stages() -> dict[tuple[str, ...], float]:
        found: dict[tuple[str, ...], float] = {}
        for one in state.instances.values():
            if one.lives:
                found[one.pool, one.stage] = found.get((one.pool, one.stage), 0) + 1
        return found

    def closed_offers() -> dict[tuple[str, ...], float]:
        now = wall_clock()
        return {key: 1 for key, offer in state.offers.items() if offer.closed_until > now}

    metrics.gauge("headrace_instances", "instances that live, by pool and stage", stages, "pool", "stage")

    def late() -> dict[tuple[str, ...], float]:
        now = wall_clock()
        found: dict[tuple[str, ...], float] = {}
        for one in state.instances.values():
            pool = state.pools.get(one.pool)
            burst = pool.document.burst if pool is not None else None
            if (
                one.lives
                and one.created_at
                and not one.joined_at
                and burst is not None
                and now > one.created_at + 2 * burst.boot
            ):
                found[(one.pool,)] = found.get((one.pool,), 0.0) + 1
        return found

    def caps() -> dict[tuple[str, ...], float]:
        now = wall_clock()
        return {
            (name,): spent(state, pool, now) / max(1, millionths(burst.cap))
            for name, pool in state.pools.items()
            if (burst := pool.document.burst) is not None and burst.cap
        }

    metrics.gauge("headrace_cap_spent_ratio", "part of its cap that a pool has spent this month", caps, "pool")
    metrics.gauge("headrace_instances_late", "instances without a node after twice their pool's boot time", late, "pool")
    metrics.gauge("headrace_offers_closed", "1 for an offer that is not used for now", closed_offers, "pool", "offer")
    metrics.gauge(
        "headrace_provider_away",
        "1 while a provider does not answer, or does not accept our credentials",
        lambda: {(name,): 1 for name in acting.trouble},
        "provider",
    )
    metrics.counter(
        "headrace_orphans_ended_total", "instances ended that the ledger did not know", lambda: acting.orphans_ended
    )
    metrics.counter("headrace_orders_refused_total", "orders that a provider has refused", lambda: acting.refusals)
