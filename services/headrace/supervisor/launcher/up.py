"""`headrace up`: starts everything on one machine in order, is ready when all has answered, keeps it alive, and stops it cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import time
from collections.abc import Callable, Collection, Coroutine, Iterable
from functools import partial
from typing import Any, Self

import msgspec

from headrace.bus.nats.connection import connect
from headrace.bus.nats.streams import STREAMS, StreamMismatch
from headrace.contracts.facts.writers import GOVERNANCE
from headrace.contracts.transport.tls import CA
from headrace.provisioner.providers.local import DIRECTORY, end_all
from headrace.provisioner.providers.local import NAME as LOCAL
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import Installation, Settings
from headrace.supervisor.nats import ledger_extent, refuse_submits, servers
from headrace.supervisor.nats.full_disk import FullDisk
from headrace.supervisor.nats.leaderless_stream import Leaderless
from headrace.supervisor.nats.replica import Replicas
from headrace.supervisor.nats.submissions import SubmissionsLost
from headrace.supervisor.network.ports import choose_port
from headrace.supervisor.processes import process_specs
from headrace.supervisor.processes.child_processes import Child, Children, ChildSupervision
from headrace.supervisor.processes.forked import ForkServer
from headrace.supervisor.processes.job_isolation import check, summary
from headrace.supervisor.processes.pidfile import Lock, RunningInstallation, write_running
from headrace.supervisor.processes.postgres import PostgresSettings, accepts, prepare, repair_command
from headrace.supervisor.processes.readiness import WHO, AddressInUse, Inspector, NotReady, is_well, until_ready

API_PORT = 8080
HEALTH_PATH = "/healthz"
GATEWAY_ATTEMPTS = 3
ASKED_WITHIN = 5.0

Progress = Callable[[str, str], None]
"""`progress(part, what)`: one line of progress."""


class Up:
    """The whole system on one data directory, from `async with` on, ready, until its end.

    `nats_port`, `api_port`: that port and no other. `fork_server`: one that has imported `IMPORTED_ONCE`; without it all programs are
    executed. `progress` receives progress.

    Raises `AlreadyRunning`, `PortTaken`, `InstallationError`, `NotReady`; everything started until then has been stopped again.
    """

    def __init__(
        self,
        installation: Installation,
        settings: Settings,
        *,
        nats_port: int | None = None,
        api_port: int | None = None,
        fork_server: ForkServer | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.installation = installation
        self.settings = settings
        self.url = ""
        self.api = ""
        self._wanted_port = nats_port
        self._wanted_api_port = api_port
        self._fork_server = fork_server
        self._progress = progress or (lambda _part, _what: None)
        self._since = time.time_ns() // 1_000
        self.ready = False
        self._lock = Lock(installation)
        self.children = Children(installation.logs, self.on_change)
        self._hurry = asyncio.Event()
        self.nats_servers: list[Child] = []
        self._nats_lives = 0
        self.mending: asyncio.Task[None] | None = None
        self.watching: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self.installation.prepare()
        self._lock.__enter__()
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def hurry(self) -> None:
        """Stop at once what is being stopped; jobs get no more time to save their work."""
        self._hurry.set()

    async def stop(self) -> None:
        """Stop everything, nodes first, and release the data directory."""
        self.ready = False
        for task in (self.mending, *self.watching):
            if task is not None:
                task.cancel()
        stopping = asyncio.ensure_future(self.children.stop(lambda names: self._progress("stopping", names)))
        hurry = asyncio.ensure_future(self._hurry.wait())
        instances = asyncio.ensure_future(asyncio.to_thread(end_all, self.installation.directory / DIRECTORY / LOCAL))
        try:
            await asyncio.wait({stopping, hurry}, return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                await self.children.stop(at_once=True)
            await stopping
            await instances
        finally:
            hurry.cancel()
            self._lock.__exit__()

    async def _start(self) -> None:
        if self._wanted_api_port is not None:
            # A port that is known to be taken is reported before anything is started.
            choose_port(self._wanted_api_port, None, flag="--api-port")
        check(self.installation, self.settings)
        self._write()
        if self._fork_server is not None:
            self.children.fork_from(self._fork_server)
        preparing = asyncio.create_task(asyncio.to_thread(self._prepare_postgres))
        try:
            inspector = await self.start_nats()
            try:
                if gone := await ledger_extent.snapshots_gone(inspector.core):
                    self._progress("snapshots", gone)
                await servers.until_streams(inspector.core, self.settings.nats_servers)
                tip = await inspector.tip()
                await asyncio.to_thread(ledger_extent.check_archive, self.installation, tip)
                self._progress("streams", f"ready    {', '.join(STREAMS)}")
                database = await preparing
                await self._start_postgres(database)
                await ledger_extent.check_copy(database.dsn, tip)
                await self._start_services(inspector, database.dsn)
                await self.start_gateway()
                await self._start_nodes(inspector)
                await inspector.until_level_rose()
                if trouble := await inspector.trouble(GOVERNANCE):
                    self._progress(GOVERNANCE, trouble)
            finally:
                await inspector.close()
        finally:
            await asyncio.gather(preparing, return_exceptions=True)  # a thread cannot be stopped in the middle
        self.ready = True
        self._write()

    def _prepare_postgres(self) -> PostgresSettings:
        return prepare(self.installation.postgres, self.installation.postgres_password())

    async def start_nats(self) -> Inspector:
        self.installation.servers(self.settings.nats_servers)
        ports = servers.choose(self.settings, self._wanted_port)
        first, *others = ports.clients
        settings = msgspec.structs.replace(self.settings, nats_port=first, nats_ports=tuple(others), route_ports=ports.routes)
        self.installation.keep_settings(settings)
        for name in process_specs.node_names(settings):
            self.installation.node(name)
        tls = self.installation.certificates()
        if tls is not None and tls.ca:
            os.environ.setdefault(CA, tls.ca)  # for our own connections, and for every child
        scheme = "nats" if tls is None else "tls"
        self.settings, self.url = settings, ports.url(scheme, settings.reached_as)
        self.nats_servers = await servers.start(self.installation, self.children, ports, supervision=self._supervision())
        self.watching = [
            asyncio.create_task(server.supervision.watch()) for server in self.nats_servers if server.supervision is not None
        ]
        if len(self.nats_servers) > 1:
            self.watching.append(asyncio.create_task(self._keep_feed()))
        self.installation.write_endpoint(self.url)
        for child, url in zip(self.nats_servers, self.url.split(","), strict=True):
            self._progress(child.program.name, f"ready    {url}")
        return await Inspector.open(self.url, self.installation.operator())

    def _supervision(self) -> Callable[[Child], ChildSupervision]:
        """Return the supervision of each NATS server: a full disk must do no harm."""
        stores = {place.name: place.store for place in self.installation.servers()}
        if len(stores) == 1:
            refuse = partial(refuse_submits.refuse, self.url, self.installation.operator())
            return lambda child: FullDisk(child, stores[child.program.name], self.on_change, refuse)
        replicas = Replicas(self._have_all, self.on_change)
        return lambda child: replicas.watch_over(child, stores[child.program.name])

    async def _have_all(self, away: str, distrusted: Collection[str]) -> bool:
        """See `servers.have_all`; False if no server answers."""
        operator = self.installation.operator()
        try:
            async with asyncio.timeout(ASKED_WITHIN):
                connection = await connect(self.url, operator.name, operator.password, name="supervisor")
        except TimeoutError:
            return False
        try:
            return await servers.have_all(connection, away, distrusted)
        finally:
            await connection.close()

    async def _keep_feed(self) -> None:
        """Keep FEED led from the start: a server may be away while the others are started. Until cancelled."""
        operator = self.installation.operator()
        connection = await connect(self.url, operator.name, operator.password, name="supervisor")
        try:
            await Leaderless(connection, len(self.nats_servers), partial(self._progress, "streams")).watch()
        finally:
            await connection.close()

    async def _start_postgres(self, database: PostgresSettings) -> None:
        (server,) = self.children.start(process_specs.postgres(database))
        try:
            await until_ready(server, lambda: accepts(database.dsn))
        except (NotReady, InstallationError) as error:
            raise NotReady(f"{error}; if it is damaged, {repair_command(self.installation.postgres)}") from None
        self._progress(process_specs.POSTGRES, "ready")

    async def _start_services(self, inspector: Inspector, dsn: str) -> None:
        tip = await inspector.tip()
        doors = process_specs.callouts(self.installation, self.url)
        started = self.children.start(*process_specs.services(self.installation, self.url, dsn), *doors)

        async def until_caught_up(child: Child, name: str) -> None:
            if child.program in doors:
                await until_ready(child, inspector.callout_answers)
            else:
                await until_ready(child, lambda: inspector.caught_up(name, tip))
            self._progress(name, "ready")

        parts = [(child, part) for child in started for part in child.program.parts or (child.program.name,)]
        await _all(until_caught_up(child, part) for child, part in parts)

    async def start_gateway(self) -> None:
        """Start it on the port asked for, else the last one, else the usual one, else any; another program may take one meanwhile."""
        tls, local = self.installation.certificates(), self.installation.local_socket()
        for attempt in range(1, GATEWAY_ATTEMPTS + 1):
            last = self.settings.api_port or API_PORT if attempt == 1 else None
            port = choose_port(self._wanted_api_port, last, flag="--api-port")
            ours = (WHO, self.installation.write_gateway_config(port))
            (gateway,) = self.children.start(process_specs.gateway(self.installation))
            try:
                await until_ready(gateway, partial(is_well, port, HEALTH_PATH, ours, tls=tls is not None))
                await until_ready(gateway, partial(is_well, local, HEALTH_PATH, ours))
            except NotReady as error:
                has_port = gateway.exit_code is None and not isinstance(error, AddressInUse)
                if attempt == GATEWAY_ATTEMPTS or has_port:
                    raise
                await self.children.stop_last()
                continue
            break
        scheme = "http" if tls is None else "https"
        self.settings = msgspec.structs.replace(self.settings, api_port=port)
        self.api = f"{scheme}://{self.settings.reached_as}:{port}"
        self.installation.keep_settings(self.settings)
        self.installation.write_endpoint(self.url, self.api, str(local))
        self._progress(process_specs.GATEWAY, f"ready    {self.api}")

    async def _start_nodes(self, inspector: Inspector) -> None:
        names = process_specs.node_names(self.settings)
        if not names:
            return
        since = await inspector.now()
        programs = [process_specs.node(self.installation, self.url, self.settings, name) for name in names]
        started = self.children.start(*programs)

        async def until_written(child: Child, name: str) -> None:
            await until_ready(child, lambda: inspector.has_written(name, since))
            self._progress(child.program.name, f"ready    {self.settings.gpus} x {self.settings.gpu_model}, simulated")

        await _all(until_written(child, name) for child, name in zip(started, names, strict=True))

    def on_change(self) -> None:
        """A child has started or ended."""
        self._write()
        lives = sum(child.restarts for child in self.nats_servers)
        if lives > self._nats_lives and all(child.state == "running" for child in self.nats_servers):
            self._nats_lives = lives
            self.mending = asyncio.create_task(self._recreate_feed())

    async def _recreate_feed(self) -> None:
        """After the server has died: make FEED again, which was in its memory."""
        operator = self.installation.operator()
        connection = await connect(self.url, operator.name, operator.password, name="supervisor")
        try:
            await servers.until_streams(connection, self.settings.nats_servers, patience=math.inf)
        except (SubmissionsLost, StreamMismatch) as error:  # no stream was made, so no submission was acknowledged
            self.nats_servers[0].trouble = str(error)
            self._write()
        finally:
            await connection.close()

    def _write(self) -> None:
        """Write the state for `status` and `down`."""
        views = tuple(view for child in self.children for view in child.views())
        now = RunningInstallation(
            pid=os.getpid(),
            since=self._since,
            url=self.url,
            api=self.api,
            ready=self.ready,
            jobs=summary(self.installation, self.settings),
            children=views,
        )
        with contextlib.suppress(InstallationError):  # a full disk must not end what runs
            write_running(self.installation, now)


async def _all(waiting: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Wait for all; the first that fails ends the others, and is raised."""
    tasks = [asyncio.ensure_future(one) for one in waiting]
    try:
        for task in asyncio.as_completed(tasks):
            await task
    finally:
        for task in tasks:
            task.cancel()
