"""What nats-py does when a permission has run out, and in all other cases."""

from __future__ import annotations

import pytest
from nats import errors
from nats.aio.client import Client

from headrace.client.nats_client import ReconnectingClient


@pytest.mark.parametrize(
    ("said", "comes_back"),
    [
        ("'User Authentication Expired'", True),
        ("'Account Authentication Expired'", True),
        ("'Authorization Violation'", False),
        ("'Permissions Violation for Publish to \"x\"'", False),
    ],
)
async def test_only_what_has_run_out_is_a_reason_to_come_back(monkeypatch, said, comes_back):
    seen = []

    async def come_back(_self, error):
        seen.append(type(error))

    async def usual(_self, message):
        seen.append(message)

    monkeypatch.setattr(Client, "_process_op_err", come_back)
    monkeypatch.setattr(Client, "_process_err", usual)
    await ReconnectingClient()._process_err(said)
    assert seen == [errors.StaleConnectionError if comes_back else said]
