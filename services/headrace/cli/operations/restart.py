"""`headrace restart`: restarts parts one after the other, while jobs run and others are submitted."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import structlog

from headrace.bus.log import LogError
from headrace.bus.nats.permissions import STANDBY, STANDBYS
from headrace.cli.arguments import Failed, add_command, add_data_option
from headrace.supervisor.cluster.file_checks import broken_files
from headrace.supervisor.installation import Installation
from headrace.supervisor.launcher.rolling_restart import Rolling, Unknown, chosen, ours
from headrace.supervisor.processes.pidfile import RunningInstallation, read_running
from headrace.supervisor.processes.readiness import Inspector, NotReady
from headrace.supervisor.service_query import ask_service, operator_client

if TYPE_CHECKING:
    import argparse

    from headrace.cli.arguments import Nouns

ANSWER_WITHIN = 2.0


def add(nouns: Nouns) -> None:
    parser = add_command(
        nouns,
        "restart",
        restart,
        "restart parts one after the other without losing anything, after an upgrade or a changed setting",
        "headrace restart\nheadrace restart allocator feed\nheadrace restart postgres",
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="names as in `headrace status` (default: all services of Headrace)"
    )
    add_data_option(parser)


async def restart(args: argparse.Namespace) -> int:
    """Restart the parts one after the other; stops at the first that does not come back."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL)
    )  # NATS may disconnect and reconnect
    installation = Installation(args.data)
    running = read_running(installation)
    if running is None:
        raise Failed(f"Headrace is not up in {installation.directory}; `headrace up` starts it")
    broken = broken_files(installation)
    if broken:
        raise Failed(f"nothing is restarted: {'; '.join(broken)}")
    try:
        names = chosen(running, args.parts) or await _ours(installation, running)
        inspector = await Inspector.open(running.url, installation.operator())
        try:
            rolling = Rolling(installation, inspector)
            for number, name in enumerate(names, 1):
                print(f"  {number}/{len(names)} {name:<20}", end=" ", flush=True)
                print(f"back after {await rolling.restart(name):.1f} s", flush=True)
        finally:
            await inspector.close()
    except (Unknown, NotReady, LogError) as error:
        raise Failed(str(error)) from None
    print("Done; `headrace status` shows the state of every part.")
    return 0


async def _ours(installation: Installation, running: RunningInstallation) -> list[str]:
    """All parts of Headrace; of a leader and its standby the standby comes first."""
    deciding: dict[str, bool] = {}
    async with operator_client(installation) as asking:
        for name in (child.name for child in running.children if child.name.removesuffix(STANDBY) in STANDBYS):
            view = await ask_service(asking, name)
            if view is not None:
                deciding[name] = view.detail.get("decides") == 1
    return ours(running, lambda name: deciding.get(name, False))
