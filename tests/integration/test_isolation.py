"""docs/security.md: what a job reaches of others and of its node, tried as the account of a job, inside what a job gets."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.contracts.facts import NodeRegisteredV1
from tests import isolation
from tests.integration.nodes import Executor, Feed, until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs jobs as others")


@pytest.fixture
async def apart(feed: Feed, nats_server: object) -> AsyncIterator[Executor]:
    """A node whose jobs run under accounts of their own; not in pytest's own folder, which is closed to them."""
    with tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        one = Executor(Path(folder), nats_server)
        one.start("--run-as", "own", "--on-stop", "end")
        await until(lambda: feed.count(NodeRegisteredV1))
        yield one
        if one.process is not None:
            one.process.terminate()
            await asyncio.to_thread(one.process.wait)


async def test_a_job_reaches_neither_files_nor_processes_of_another_users_job_nor_of_its_node(
    feed: Feed, apart: Executor
) -> None:
    other = await isolation.begin_to_hold(feed, 0)
    process = isolation.first_process(apart, other)
    assert await isolation.got(feed, apart, 1, other, process, user="bob") == []
    assert await isolation.got(feed, apart, 2, other, process) == isolation.OWN
