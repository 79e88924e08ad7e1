"""What JetStream says, as it says it."""

from __future__ import annotations

import msgspec
import pytest

from headrace.wire.acknowledgement import FULL, NO_STORAGE, Acknowledgement, Fault


@pytest.mark.parametrize(
    ("said", "read"),
    [
        (b'{"stream":"LEDGER","seq":42}', Acknowledgement(seq=42)),
        (b'{"stream":"SUBMIT","seq":7,"duplicate":true}', Acknowledgement(seq=7)),
        (
            b'{"error":{"code":503,"err_code":10077,"description":"maximum messages per subject exceeded"},"stream":"SUBMIT","seq":0}',
            Acknowledgement(error=Fault(503, FULL, "maximum messages per subject exceeded")),
        ),
        (
            b'{"error":{"code":500,"err_code":10047,"description":"insufficient storage resources available"}}',
            Acknowledgement(error=Fault(500, NO_STORAGE, "insufficient storage resources available")),
        ),
    ],
)
def test_an_acknowledgement_is_the_place_in_the_stream_or_the_fault(said: bytes, read: Acknowledgement) -> None:
    assert msgspec.json.decode(said, type=Acknowledgement) == read
