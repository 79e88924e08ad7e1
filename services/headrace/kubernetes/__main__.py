"""`python -m headrace.kubernetes`: the bridge as a process, set up by its environment (docs/kubernetes.md)."""

from __future__ import annotations

import asyncio
import signal
import sys

import structlog

from headrace.bus.variables import FAILED, STOPPED


def main() -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    log = structlog.get_logger("headrace.kubernetes")
    try:
        from headrace.kubernetes.service import serve  # noqa: PLC0415 - its library is an extra
    except ModuleNotFoundError as error:
        log.error("failed", reason=f"{error.name} is missing: pip install 'headrace[kubernetes]'")  # noqa: TRY400 - complete as it is
        return FAILED

    async def run() -> int:
        work = asyncio.ensure_future(serve())
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, work.cancel)
        try:
            await work
        except asyncio.CancelledError:
            log.info("stopped")
        except Exception as error:
            log.exception("failed", reason=str(error))
            return FAILED
        return STOPPED

    return asyncio.run(run())


if __name__ == "__main__":
    sys.exit(main())
