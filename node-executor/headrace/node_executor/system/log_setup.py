"""The executor's own log: one JSON object a line on stderr."""

from __future__ import annotations

import logging
import os
import sys

import structlog

LEVEL = "HEADRACE_LOG_LEVEL"


def configure_logs(node: str) -> None:
    """Write logs as one JSON object a line on stderr; also warnings of other libraries."""
    level = logging.getLevelNamesMapping().get(os.environ.get(LEVEL, "INFO").upper(), logging.INFO)
    shared: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, _Named(node), structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    foreign = logging.StreamHandler(sys.stderr)
    foreign.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _Named(node),
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(handlers=[foreign], level=max(level, logging.WARNING), force=True)


class _Named:
    """Adds the name of the logger to every line."""

    def __init__(self, node: str) -> None:
        self._node = node

    def __call__(self, _logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event["service"], event["node"] = "node", event.get("node", self._node)
        return event
