"""How a machine that sleeps is woken."""

from __future__ import annotations

import socket

import pytest

from headrace.provisioner.providers import ProviderAway
from headrace.provisioner.providers.machines import OwnedMachine, wake, wake_packet


async def test_a_machine_is_woken_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hearing:
        hearing.bind(("127.0.0.1", 0))
        hearing.settimeout(10)
        monkeypatch.setattr("headrace.provisioner.providers.machines.WAKE_PORT", hearing.getsockname()[1])
        await wake(OwnedMachine(name="gpu-1", mac="0c:42:a1:00:00:01"), "127.0.0.1")
        assert hearing.recv(1_000) == bytes([255] * 6 + [0x0C, 0x42, 0xA1, 0, 0, 1] * 16)
    assert wake_packet("0c-42-a1-00-00-01") == wake_packet("0c:42:a1:00:00:01")
    with pytest.raises(ProviderAway, match="gpu-1: mac: '1' is not an address"):
        await wake(OwnedMachine(name="gpu-1", mac="1"), "127.0.0.1")
