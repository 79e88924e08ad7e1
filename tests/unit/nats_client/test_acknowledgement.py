"""What JetStream says, as it says it."""

from __future__ import annotations

import msgspec
import pytest

from headrace.nats_client.acknowledgement import NO_STORAGE, NOT_STORED, Acknowledgement, PublishError


@pytest.mark.parametrize(
    ("payload", "read"),
    [
        (b'{"stream":"LEDGER","seq":42}', Acknowledgement(seq=42)),
        (b'{"stream":"SUBMIT","seq":7,"duplicate":true}', Acknowledgement(seq=7, duplicate=True)),
        (
            b'{"error":{"code":503,"err_code":10077,"description":"maximum messages per subject exceeded"},"stream":"SUBMIT","seq":0}',
            Acknowledgement(error=PublishError(503, NOT_STORED, "maximum messages per subject exceeded")),
        ),
        (
            b'{"error":{"code":500,"err_code":10047,"description":"insufficient storage resources available"}}',
            Acknowledgement(error=PublishError(500, NO_STORAGE, "insufficient storage resources available")),
        ),
    ],
)
def test_an_acknowledgement_is_the_place_in_the_stream_or_the_fault(payload: bytes, read: Acknowledgement) -> None:
    assert msgspec.json.decode(payload, type=Acknowledgement) == read


@pytest.mark.parametrize(
    ("fault", "is_full", "disk_error"),
    [
        (PublishError(503, NOT_STORED, "maximum messages per subject exceeded"), True, ""),
        (PublishError(503, NOT_STORED, "maximum bytes exceeded"), True, ""),
        (
            PublishError(503, NOT_STORED, "write /srv/nats/jetstream/CORE/streams/SUBMIT/msgs/1.blk: no space left on device"),
            False,
            "NATS cannot write to its disk (no space left on device): nothing is accepted until it can; it then continues by itself",
        ),
        (PublishError(500, NO_STORAGE, "the disk is full"), False, "the disk is full"),
        (PublishError(400, 10_071, "wrong last sequence: 7"), False, ""),
    ],
)
def test_a_subject_that_is_full_is_told_from_a_disk_that_is(fault: PublishError, is_full: bool, disk_error: str) -> None:
    assert (fault.is_full, fault.disk_error) == (is_full, disk_error)
