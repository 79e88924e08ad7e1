"""All records of the ledger for a command: from the files on this machine, or else through an administrator's login."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import structlog

from headrace.archive.history import ARCHIVE, WholeLedger
from headrace.audit.verify_reading import stored_messages
from headrace.bus.log import LogError
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.cli.arguments import Failed, client
from headrace.cli.output.terminal import progress
from headrace.client.contexts import Chosen, chosen_context
from headrace.client.endpoint import TOKEN, URL
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import OPERATOR, Installation
from headrace.supervisor.nats.store import open_store
from headrace.supervisor.processes.pidfile import AlreadyRunning
from headrace.supervisor.processes.readiness import NotReady

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from headrace.domain.fold.ledger import StoredMessage
    from headrace.nats_client.connection import Connection


def here(args: argparse.Namespace) -> Installation | None:
    """The installation if it is on this machine, its files are readable, and the environment does not name another one; else None."""
    installation = Installation(args.data)
    chosen = Chosen(getattr(args, "server", ""), getattr(args, "context", ""), args.data)
    names_another = URL in os.environ or TOKEN in os.environ or chosen_context(chosen) is not None
    return installation if not names_another and (installation.credentials / f"{OPERATOR}.json").exists() else None


def records(args: argparse.Namespace) -> AsyncIterator[tuple[int, Iterable[StoredMessage]]]:
    """All records in batches, each with the last sequence of the ledger; missing records in files are left out."""
    installation = here(args)
    return _asked_for(args) if installation is None else _stored(installation)


@asynccontextmanager
async def store(installation: Installation) -> AsyncIterator[tuple[Connection, WholeLedger]]:
    """The stored ledger, archive included, and the connection to the rest. Errors are raised as `Failed`."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))  # errors come as exceptions
    try:
        async with open_store(installation) as connection:
            yield connection, WholeLedger(JetStreamLog(connection, LEDGER_STREAM), installation.directory / ARCHIVE)
    except (LogError, NotReady, AlreadyRunning, InstallationError) as error:
        raise Failed(str(error)) from None


async def _stored(installation: Installation) -> AsyncIterator[tuple[int, Iterable[StoredMessage]]]:
    """The stored records, missing ones left out, each batch with the last sequence."""
    async with store(installation) as (_, log):
        tip = await log.tip()
        async for batch in stored_messages(log, 0, tip):
            yield tip, batch


async def _asked_for(args: argparse.Namespace) -> AsyncIterator[tuple[int, Iterable[StoredMessage]]]:
    """The records that governance delivers, each batch with the last sequence."""
    async with client(args) as hr:
        after = 0
        while True:
            answer = await hr.records(after)
            if not answer.records:
                return
            yield answer.tip, answer.records
            after = answer.records[-1].sequence


class Progress:
    """Progress on one line of a terminal, which is written over."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._shown_at = 0.0

    def show(self, sequence: int, tip: int) -> None:
        """Show the sequence and the time left, at most every 0.2 s."""
        now = time.monotonic()
        if sys.stderr.isatty() and now - self._shown_at > 0.2:
            self._shown_at = now
            left = (now - self._began) * (tip - sequence) / max(1, sequence)
            progress(f"record {sequence} of {tip}, {left:.0f} s left")

    def end(self) -> None:
        """Clear the line of progress."""
        if self._shown_at:
            progress("")
