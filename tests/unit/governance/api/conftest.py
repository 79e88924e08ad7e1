"""The services of the API over a decider that states at once what it is asked."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.governance.api.context import CallContext
from headrace.identity.caller import Caller, Role
from headrace.service.answering import Refused

NOW = 1_700_000_000_000_000
ROOT = Caller(Role.PROVIDER_ADMIN, "default", "root")


class Backend(SimpleNamespace):
    """What the services of the API find there; what was signed and destroyed is written down."""

    def __init__(self, site) -> None:
        self.signed: list[object] = []
        self.destroyed: list[str] = []
        self.keys = {"default.zoe"}
        texts = SimpleNamespace(has=self.keys.__contains__, destroy=self.destroyed.append)
        super().__init__(state=site.state, clock=lambda: NOW, now=lambda: NOW, texts=texts, alone="")
        self._site = site

    def sign(self, grant) -> str:
        self.signed.append(grant)
        return "the.signed.token"

    async def decide(self, operation):
        decision = operation(self.state, NOW)
        if decision.code:
            raise Refused(decision.code, decision.error, decision.answer)
        if decision.facts:
            self._site.append_facts(*decision.facts)
        return decision.answer


@pytest.fixture
def backend(site) -> Backend:
    return Backend(site)


@pytest.fixture
def call(backend):
    """The call of a method as a caller; by default the provider's administrator."""
    return lambda method, caller=ROOT: CallContext(caller, method, 5.0, backend)
