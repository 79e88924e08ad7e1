"""Runs services as a process: logs, signals, their connections, and an exit code by which its supervisor knows what to do.

Each service of a process has its own login, health page and heartbeat. Its environment is that of the process; a variable that ends in two
underscores and the service's name holds for this service only: HEADRACE_NATS_PASSWORD__FEED.

Exit codes: 0 stopped as asked; 1 failed; 3 fenced (another instance writes in this name: start again and rebuild); 4 the log is broken (a
person has to look: starting again will not help); 5 the same with several servers (start again once: it may have been one server's copy
alone).
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import structlog

from headrace.bus import telemetry
from headrace.bus.heartbeat import announce
from headrace.bus.log import LogBroken, LogError, LogUnavailable
from headrace.bus.loop import Fenced
from headrace.bus.nats.connection import connect
from headrace.bus.variables import (
    BROKEN,
    DATA,
    DEPOSED,
    DOUBTED,
    ENVIRONMENT,
    FAILED,
    INSTANCE,
    PASSWORD,
    STOPPED,
    URL,
    USER,
    of_service,
)
from headrace.contracts.transport.servers import servers
from headrace.contracts.transport.tls import CA
from headrace.health.config import BadAddress, read_config, serving
from headrace.health.health import Health
from headrace.nats_client.connection import Connection

DEFAULT_URL = "nats://127.0.0.1:4222"
NATS, LEDGER = "nats", "ledger"
"""Names of the health checks of each service: that it is connected; that it has read the ledger, which it adds when it begins to."""

COLLECTED_AFTER = 2_000, 10, 100
"""Thresholds of the garbage collector.

The youngest objects are searched after that many new ones, survivors after ten times as many, all after two million.
"""

BROKEN_LEDGER_HELP = (
    "`headrace audit verify` says what is wrong with the ledger and where, `headrace repair --look` whether it can be put right"
)


class Service(NamedTuple):
    """Context of a service. `data`: the directory of this installation; `health`: its health and metrics."""

    name: str
    connection: Connection
    data: Path
    log: Any
    health: Health
    environment: Mapping[str, str] = os.environ


def run_service(name: str, main: Callable[[Service], Awaitable[None]]) -> NoReturn:
    """Run one service: as `run_services`."""
    run_services((name,), lambda services: main(services[0]))


def run_services(names: Sequence[str], main: Callable[[Sequence[Service]], Awaitable[None]]) -> NoReturn:
    """Run `main` until it returns, fails, or SIGTERM or SIGINT cancels it; then exit the process with its exit code."""
    reason = complete_environment(os.environ)
    environments = {name: dict(os.environ) for name in names}
    for name in names if not reason else ():
        reason = reason or specialize(environments[name], name)
    trust_authority(os.environ, environments.values())
    called = os.environ.get(INSTANCE) or "+".join(names)
    telemetry.configure(called, [own.get(INSTANCE) or name for name, own in environments.items()] if len(names) > 1 else ())
    if reason:
        structlog.get_logger(f"headrace.{called}").error("failed", reason=reason)
        raise SystemExit(FAILED)
    collect_garbage_rarely()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        code = runner.run(serve(called, main, environments))
    telemetry.flush()
    raise SystemExit(code)


def collect_garbage_rarely() -> None:
    """Search for cyclic garbage less often than Python does by default: a fold has very many objects and hardly any cyclic garbage.

    Measured: 300,000 facts are folded in 3.2 s of CPU instead of 3.9.
    """
    gc.set_threshold(*COLLECTED_AFTER)


def trust_authority(process: MutableMapping[str, str], services: Iterable[Mapping[str, str]]) -> None:
    """Let connections of this process, which look into its own environment, trust the authority that its services name."""
    for environment in services:
        if authority := environment.get(CA):
            process.setdefault(CA, authority)


def specialize(environment: dict[str, str], service: str) -> str:
    """Let the variables that hold for this service only take precedence; returns "" or an error."""
    ending = of_service("", service)
    own = {key.removesuffix(ending): value for key, value in environment.items() if key.endswith(ending)}
    if reason := complete_environment(own):
        return reason
    environment |= own
    return ""


def complete_environment(environment: MutableMapping[str, str]) -> str:
    """Add the variables of the file that the environment names; returns "" or an error."""
    file = environment.get(ENVIRONMENT, "")
    if not file:
        return ""
    try:
        lines = Path(file).read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        return f"{ENVIRONMENT}: {file} cannot be read: {error}"
    for number, line in enumerate(lines, start=1):
        key, equals, value = line.partition("=")
        if not line.strip() or line.startswith("#"):
            continue
        if not equals or not key.isidentifier():
            return f"{ENVIRONMENT}: line {number} of {file} is not KEY=VALUE"
        environment.setdefault(key, value)
    return ""


def freeze_present_objects() -> None:
    """Exclude all present objects from garbage collection. For `at_tip`.

    Objects that come later mostly stay too, and next to nothing of them becomes cyclic garbage. By default the collector would search all
    of them whenever a quarter has been added to what is not frozen, which is nothing yet: 35 ms after 60,000 jobs. So it is set to do that
    seldom.
    """
    gc.collect()
    gc.freeze()
    collect_garbage_rarely()


async def serve(
    called: str, main: Callable[[Sequence[Service]], Awaitable[None]], environments: Mapping[str, Mapping[str, str]]
) -> int:
    log = structlog.get_logger(f"headrace.{called}")
    work = asyncio.ensure_future(_work(main, environments))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        log.info("stopped")
    except Fenced as error:
        log.warning("deposed", reason=str(error))
        return DEPOSED
    except LogBroken as error:
        log.critical("log_broken", reason=str(error), help=BROKEN_LEDGER_HELP)
        is_doubted = any(len(servers(environment.get(URL, ""))) > 1 for environment in environments.values())
        return DOUBTED if is_doubted else BROKEN
    except (LogError, BadAddress) as error:
        log.error("failed", reason=str(error))  # noqa: TRY400 - the reason is complete without a traceback
        return FAILED
    except Exception as error:
        log.exception("failed", reason=str(error))
        return FAILED
    return STOPPED


async def _work(main: Callable[[Sequence[Service]], Awaitable[None]], environments: Mapping[str, Mapping[str, str]]) -> None:
    """Run `main` with all services connected, until it ends, or NATS closes the connection of one of them for good."""
    async with AsyncExitStack() as stack:
        services = [await stack.enter_async_context(_present(name, own)) for name, own in environments.items()]
        work = asyncio.ensure_future(main(services))
        thrown_out = [asyncio.ensure_future(service.connection.closed_for_good.wait()) for service in services]
        try:
            await asyncio.wait({work, *thrown_out}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise LogUnavailable("the NATS server has closed the connection for good")
            await work
        finally:
            for task in (*thrown_out, work):
                task.cancel()
            await asyncio.gather(work, return_exceptions=True)


@asynccontextmanager
async def _present(name: str, environment: Mapping[str, str]) -> AsyncIterator[Service]:
    """The service, connected and announced while the context is open. Its health page is up before NATS is connected."""
    name = environment.get(INSTANCE) or name
    log = structlog.get_logger(f"headrace.{name}")
    health = Health(name)
    health.check(NATS, lambda: "not connected yet")
    health.not_before(LEDGER)
    telemetry.send(health.metrics, name)
    async with serving(health, read_config(environment)):
        url = environment.get(URL, DEFAULT_URL)
        connection = await connect(url, environment.get(USER, name), environment.get(PASSWORD, ""), name=name)
        health.check(NATS, lambda: "" if connection.is_connected else "the NATS server is away")
        health.metrics.gauge(
            "headrace_nats_connected", "1 while connected to the NATS server", lambda: int(connection.is_connected)
        )
        log.info("started", url=url, pid=os.getpid())
        announcing = asyncio.ensure_future(announce(connection, environment.get(USER, name), name))
        try:
            yield Service(name, connection, Path(environment.get(DATA, "data")), log, health, environment)
        finally:
            announcing.cancel()
            await asyncio.gather(announcing, return_exceptions=True)
            await connection.close()


async def second_connection(service: Service, what: str) -> Connection:
    """A further connection with the service's login, so that a flood on it does not affect the first one."""
    url, user = service.environment.get(URL, DEFAULT_URL), service.environment.get(USER, service.name)
    return await connect(url, user, service.environment.get(PASSWORD, ""), name=f"{service.name}-{what}")


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop  # noqa: PLC0415 - faster if installed
    except ImportError:
        return None
    return uvloop.new_event_loop
