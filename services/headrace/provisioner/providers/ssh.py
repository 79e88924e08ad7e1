"""Provider `ssh`: machines that one owns. An instance is a node executor on one of them, which is woken first and put to sleep afterwards.

It needs the extra `burst` (asyncssh), and `machines.yaml` in its directory (`machines`). A machine has one instance at a time, and tells by
its own files which (`on_machine`): so it does not matter which provisioner asks, or when. A machine that does not answer may sleep or be
cut off: while one has run an instance lately, nothing is concluded from its silence.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from headrace.contracts.values.ids import is_token
from headrace.provisioner.providers import Created, Listed, NotAuthorized, NotYet, ProviderAway, Refusal, on_machine
from headrace.provisioner.providers.machines import FILE, read_machines, wake

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from headrace.contracts.documents.model import Offer
    from headrace.provisioner.providers import OfferAsked, Order
    from headrace.provisioner.providers.machines import Machines, OwnedMachine

NAME = "ssh"

CONNECT_WITHIN = 5.0
RUN_WITHIN = 60.0
SILENT_AFTER = 900.0
"""Seconds after which a machine that ran an instance and does not answer is taken to be off."""


class _Tags(msgspec.Struct, kw_only=True):
    instance: str
    installation: str
    token: str
    pool: str
    offer: str
    created_at: int


class _Shown(NamedTuple):
    runs: bool
    tags: _Tags


_Look = list[_Shown] | ProviderAway
"""What a machine shows, or why it does not."""


class _Silent(ProviderAway):
    """A machine does not answer."""


class _Waking(NamedTuple):
    instance: str
    since: float


class SshProvider:
    """The instances on the machines that the file in `directory` lists."""

    def __init__(self, directory: Path, installation: str) -> None:
        self._path = directory / FILE
        self._installation = installation
        self._waking: dict[str, _Waking] = {}
        self._asked: dict[str, str] = {}
        """Instance to the machine that was asked to begin it and has not answered."""
        self._ended: set[str] = set()
        self._ran_at: dict[str, float] = {}
        """Machine to when it was last seen with an instance."""

    async def create(self, order: Order) -> Created | Refusal:
        """Begin the instance on a machine that is free, or find it; wake one if all that are on are taken."""
        if not order.environment:
            raise ProviderAway("its node has no login yet")
        known = await self._known()
        machines = [one for one in known.machines if order.offer.type in ("", one.type)]
        if not machines:
            return Refusal("INVALID", f"{self._path} lists no machine of type {order.offer.type!r}")
        looks = await self._look(known, machines)
        there = [one for one in machines if order.instance in _names(looks[one.name])]
        asked = self._asked.get(order.instance, "")
        if not there and isinstance(looks.get(asked), ProviderAway):
            raise ProviderAway(f"{asked} was asked to begin it, and does not answer")
        if not there and order.instance in self._ended:
            raise ProviderAway("it is to end")
        for machine in there or [one for one in machines if self._may_take(one, looks[one.name], order.instance)]:
            if (begun := await self._begin(known, machine, order)) is not None:
                return begun
        return await self._wake_one(known, machines, looks, order.instance)

    async def end(self, instance: str, provider_id: str, region: str) -> int:  # noqa: ARG002 - machines have no region
        """Stop the executor, wherever it is. A machine that was woken for it in vain goes to sleep."""
        self._ended.add(instance)
        known = await self._known()
        name = provider_id.rpartition("/")[2] or self._asked.get(instance, "")
        machines = [one for one in known.machines if name in ("", one.name)]
        answers = await self._on_each(known, machines, "end", lambda one: on_machine.end(one, instance))
        for machine, answer in answers.items():
            if isinstance(answer, ProviderAway) and (name or not isinstance(answer, _Silent)):
                raise answer
            self._ran_at.pop(machine, None)
        self._asked.pop(instance, None)
        await self._let_rest(known)
        return time.time_ns() // 1_000

    async def list(self, regions: Sequence[str]) -> Sequence[Listed]:  # noqa: ARG002 - machines have no region
        """The instances of this installation on the machines that answer."""
        known = await self._known()
        looks = await self._look(known, known.machines)
        found: dict[str, Listed] = {}
        for machine, look in looks.items():
            if isinstance(look, ProviderAway):
                if not isinstance(look, _Silent) or time.monotonic() - self._ran_at.get(machine, -SILENT_AFTER) < SILENT_AFTER:
                    raise look
                continue
            for runs, tags in look:
                if self._is_mine(tags) and (runs or tags.instance not in found):
                    found[tags.instance] = Listed(tags.instance, f"{NAME}/{machine}", tags.created_at, runs)
        await self._let_rest(known)
        return sorted(found.values())

    async def prices(self, offers: Sequence[Offer]) -> dict[str, int]:  # noqa: ARG002 - machines have no market
        """No prices: what an hour of a machine costs is in the document."""
        return {}

    async def check(self, offers: Sequence[OfferAsked]) -> dict[str, str]:
        """Whether the machines of each offer accept the key and have what instances need. One that sleeps cannot be asked."""
        known = await self._known()
        answers = await self._on_each(known, known.machines, "check", on_machine.check)
        found = {}
        for offer, _ in offers:
            machines = [one for one in known.machines if offer.type in ("", one.type)]
            wrong = [_wrong_with(one, answers[one.name]) for one in machines]
            found[offer.name] = "; ".join(filter(None, wrong)) if machines else f"{self._path} lists no machine of its type"
        return found

    async def _known(self) -> Machines:
        return await asyncio.to_thread(read_machines, self._path)

    async def _look(self, known: Machines, machines: Sequence[OwnedMachine]) -> dict[str, _Look]:
        """What each machine shows of its instances, or why it does not."""
        answers = await self._on_each(known, machines, "show", on_machine.show)
        looks = {name: answer if isinstance(answer, ProviderAway) else _shown(answer) for name, answer in answers.items()}
        for name, look in looks.items():
            if not isinstance(look, ProviderAway) and any(runs and self._is_mine(tags) for runs, tags in look):
                self._ran_at[name] = time.monotonic()
        return looks

    def _is_mine(self, tags: _Tags) -> bool:
        return tags.installation == self._installation and is_token(tags.instance)

    def _may_take(self, machine: OwnedMachine, look: _Look, instance: str) -> bool:
        """Whether the machine is on, has no instance, and was not woken for another one."""
        if isinstance(look, ProviderAway) or any(runs for runs, _ in look):
            return False
        woken = self._waking.get(machine.name)
        return woken is None or woken.instance == instance

    async def _begin(self, known: Machines, machine: OwnedMachine, order: Order) -> Created | Refusal | None:
        """The instance, begun or found; None if another one has taken the machine."""
        tags = _Tags(
            instance=order.instance,
            installation=self._installation,
            token=order.token,
            pool=order.pool,
            offer=order.offer.name,
            created_at=time.time_ns() // 1_000,
        )
        self._asked[order.instance] = machine.name
        answer = await _run(known, machine, "begin", on_machine.begin(machine, order, msgspec.json.encode(tags).decode()))
        del self._asked[order.instance]
        word, _, rest = answer.strip().partition(" ")
        if word == "busy":
            return None
        if word != "made":
            raise ProviderAway(f"{machine.name}: it has answered {answer.strip()[:200]!r}")
        self._waking.pop(machine.name, None)
        self._ran_at[machine.name] = time.monotonic()
        made = msgspec.json.decode(rest, type=_Tags)
        if made.token != order.token:
            return Refusal("INVALID", f"instance {order.instance} was made by another order")
        return Created(f"{NAME}/{machine.name}", made.created_at)

    async def _wake_one(
        self,
        known: Machines,
        machines: Sequence[OwnedMachine],
        looks: dict[str, _Look],
        instance: str,
    ) -> Refusal:
        """Wake a machine that sleeps, and raise NotYet until it is on. A refusal if none can be woken."""
        now, reasons = asyncio.get_running_loop().time(), []
        for machine in machines:
            look, woken = looks[machine.name], self._waking.get(machine.name)
            if not isinstance(look, ProviderAway):
                reasons.append(
                    f"{machine.name} has {next((tags.instance for runs, tags in look if runs), 'been woken for another')}"
                )
            elif isinstance(look, NotAuthorized):
                raise look
            elif not machine.can_be_woken:
                reasons.append(str(look))
            elif woken is not None and now - woken.since > known.wake_within:
                reasons.append(f"{machine.name} was woken {now - woken.since:.0f} s ago and does not answer")
            elif woken is None or woken.instance == instance:
                self._waking[machine.name] = _Waking(instance, woken.since if woken is not None else now)
                await wake(machine, known.broadcast)
                raise NotYet(f"{machine.name} is waking")
            else:
                reasons.append(f"{machine.name} is waking for {woken.instance}")
        silent = [look for look in looks.values() if isinstance(look, ProviderAway)]
        if len(silent) == len(machines) and not any(one.can_be_woken for one in machines):
            raise silent[0]
        return Refusal("CAPACITY", "; ".join(reasons))

    async def _let_rest(self, known: Machines) -> None:
        """Put to sleep what was woken for an instance that has ended meanwhile."""
        vain = [one for one in known.machines if one.name in self._waking and self._waking[one.name].instance in self._ended]
        for name, answer in (await self._on_each(known, vain, "rest", on_machine.rest)).items():
            if not isinstance(answer, ProviderAway) or self._has_not_woken(known, name):
                del self._waking[name]

    def _has_not_woken(self, known: Machines, name: str) -> bool:
        return asyncio.get_running_loop().time() - self._waking[name].since > known.wake_within

    async def _on_each(
        self, known: Machines, machines: Sequence[OwnedMachine], what: str, script: Callable[[OwnedMachine], str]
    ) -> dict[str, str | ProviderAway]:
        """What each machine answers, all asked at once, or why it did not."""

        async def on(machine: OwnedMachine) -> str | ProviderAway:
            try:
                return await _run(known, machine, what, script(machine))
            except ProviderAway as error:
                return error

        answers = await asyncio.gather(*map(on, machines))
        return {machine.name: answer for machine, answer in zip(machines, answers, strict=True)}


async def _run(known: Machines, machine: OwnedMachine, what: str, script: str) -> str:
    """What a script prints on a machine; it goes over standard input, so that no list of processes shows it.

    Raises ProviderAway, NotAuthorized, or _Silent if the machine cannot be reached.
    """
    try:
        import asyncssh  # noqa: PLC0415 - of the extra `burst`
    except ImportError:
        raise ProviderAway("asyncssh is missing; install headrace[burst] where the provisioner runs") from None
    try:
        async with (
            asyncio.timeout(RUN_WITHIN),
            asyncssh.connect(
                machine.address,
                machine.port,
                username=machine.user,
                client_keys=[known.key],
                known_hosts=known.known_hosts,
                agent_path=None,
                config=None,
                connect_timeout=CONNECT_WITHIN,
                login_timeout=CONNECT_WITHIN * 2,
            ) as connection,
        ):
            done = await connection.run(f"/bin/sh -s {what}", input=script)
    except asyncssh.PermissionDenied as error:
        raise NotAuthorized(f"{machine.name}: {error.reason}") from None
    except asyncssh.HostKeyNotVerifiable as error:
        raise NotAuthorized(f"{machine.name}: {error.reason}; see known_hosts of {FILE}") from None
    except (OSError, TimeoutError, asyncssh.Error) as error:
        raise _Silent(f"{machine.name} does not answer: {str(error) or 'not in time'}") from None
    except (asyncssh.KeyImportError, ValueError) as error:
        raise ProviderAway(f"key {known.key}: {error}") from None
    if done.exit_status:
        raise ProviderAway(f"{machine.name}: {what}: {str(done.stderr).strip()[:200] or f'status {done.exit_status}'}")
    if done.exit_status is None:
        raise _Silent(f"{machine.name}: the connection was lost")
    return str(done.stdout)


def _shown(text: str) -> list[_Shown]:
    found = []
    for line in text.splitlines():
        word, _, tags = line.partition(" ")
        try:
            found.append(_Shown(word == "runs", msgspec.json.decode(tags, type=_Tags)))
        except msgspec.MsgspecError:
            continue
    return found


def _names(look: _Look) -> set[str]:
    return set() if isinstance(look, ProviderAway) else {tags.instance for _, tags in look}


def _wrong_with(machine: OwnedMachine, answer: str | ProviderAway) -> str:
    if isinstance(answer, str):
        return f"{machine.name}: {answer.strip()}" if answer.strip() else ""
    return "" if isinstance(answer, _Silent) and machine.can_be_woken else str(answer)
