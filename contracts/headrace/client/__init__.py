"""The Python client: submit jobs to a Headrace and follow them. Needs nats-py and msgspec only.

The question it answers: *how does a program put work into Headrace, and follow it?*

    async with headrace.client.connect() as hr:
        job = await hr.submit("ai-dev/half", ["python", "train.py"], on_abort=["python", "save.py"])
        async for fact in hr.watch(job.id):
            print(fact.type, fact.fields)

Facts read: those of its tenant, from `hr.feed.<tenant>.>`. Facts written: none; it publishes submissions and sends requests.

- `endpoint` finds the installation and the login; `errors` are all that can go wrong; `link` is the connection.
- `submissions` makes and checks submissions; `client` has the class `Client`; `feed` is a fact of the feed.
- `job` is for programs that run *inside* a job; `training` has callbacks for training libraries.

It never decides anything, keeps no state, and has no rights beyond its login's.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from headrace.client.errors import HeadraceError, Refused, Unreachable

if TYPE_CHECKING:
    from headrace.client.client import Client, connect
    from headrace.client.feed import FeedFact
    from headrace.client.submitted_job import SubmittedJob

__all__ = ["Client", "FeedFact", "HeadraceError", "Refused", "SubmittedJob", "Unreachable", "connect"]

_MODULES = {"Client": "client", "SubmittedJob": "submitted_job", "connect": "client", "FeedFact": "feed"}
"""Names that are imported when they are used first: the errors alone are used by programs that start fast."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
