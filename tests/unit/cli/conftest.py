"""Commands as people type them, on a client that answers from a table."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from headrace.cli import away, completion, whole_ledger
from headrace.cli.history import audit, replay
from headrace.cli.identities import tenant, token, user
from headrace.cli.jobs import cancel, jobs, submit
from headrace.cli.main import main
from headrace.cli.reports import books, statement
from headrace.cli.resources import approve, burst, documents, supply, whatif


class FakeClient:
    """`answers`: what each method gives; of a list one after the other, of a function what it gives; an exception is raised. `calls`: what
    was called, and with what."""

    def __init__(self, answers):
        self.answers = answers
        self.calls = []
        self.user = "alice"
        self.tenant = "default"

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        return None

    def __getattr__(self, name):
        async def pages(*args, **kwargs):
            await asyncio.sleep(0)
            self.calls.append((name, args, kwargs))
            answer = self.answers[name]
            for page in answer if isinstance(answer, list) else [answer]:
                if isinstance(page, Exception):
                    raise page
                yield page

        if name in ("usage", "audit_lines", "state"):
            return pages

        async def method(*args, **kwargs):
            await asyncio.sleep(0)
            self.calls.append((name, args, kwargs))
            answer = self.answers[name]
            if isinstance(answer, list):
                answer = answer.pop(0)
            if callable(answer):
                answer = answer(*args)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return method


class Ran(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str
    calls: list


@pytest.fixture
def headrace(monkeypatch, capsys):
    """`headrace("jobs --json", jobs=())`: run a command line on these answers."""

    def run(line, **answers):
        fake = FakeClient(answers)
        for module in (
            approve,
            audit,
            away,
            books,
            burst,
            cancel,
            completion,
            documents,
            jobs,
            replay,
            statement,
            submit,
            supply,
            tenant,
            token,
            user,
            whatif,
            whole_ledger,
        ):
            monkeypatch.setattr(module, "client", lambda *_: fake)
        try:
            code = main(line if isinstance(line, list) else line.split())
        except SystemExit as exit_:
            code = exit_.code
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err, fake.calls)

    return run
