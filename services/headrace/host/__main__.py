"""Entry point of `python -m headrace.host SERVICE...`: these services as one process."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import import_module

import headrace.health.without_rich  # noqa: F401 - before structlog
from headrace.bus.process import Service, run_services
from headrace.host.layouts import ALONE, SHARING
from headrace.service.hosting import Part, host


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m headrace.host",
        description=__doc__,
        epilog="Variables of the environment hold for all of them; with __ and the service's name behind, for that service only: "
        "HEADRACE_ENVIRONMENT__FEED=/etc/headrace/feed.env",
    )
    parser.add_argument("services", nargs="+", metavar="SERVICE", help=f"one or more of {', '.join(SHARING)}")
    names: list[str] = parser.parse_args().services
    for name in names:
        if name in ALONE:
            parser.error(f"SERVICE: {name} shares no process; start it by `python -m headrace.{name}`")
        if name not in SHARING:
            parser.error(f"SERVICE: unknown service {name!r}; choose from {', '.join(SHARING)}")
        if names.count(name) > 1:
            parser.error(f"SERVICE: {name} is named twice")
    parts: list[Part] = [import_module(f"headrace.{name}.service").PART for name in names]

    async def run(services: Sequence[Service]) -> None:
        await host(list(zip(services, parts, strict=True)))

    run_services(names, run)


if __name__ == "__main__":
    main()
