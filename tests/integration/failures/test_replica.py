"""Three NATS servers; one has stored another record than the others: it gives up its copy, and copies theirs."""

from __future__ import annotations

import subprocess
from pathlib import Path

from headrace.archive.nats_blocks import StreamBlock, read
from headrace.bus.log import StoredMessage
from tests.integration.machine import HEADRACE, Machine
from tests.patience import PATIENCE
from tests.unit.supervisor.disks import FULL_DISK

LEDGER = Path("jetstream") / "CORE" / "streams" / "LEDGER" / "msgs"


def records(store: Path) -> list[StoredMessage]:
    found = [each.record for path in (store / LEDGER).glob("*.blk") for each in read(path.read_bytes())[0]]
    return sorted(found, key=lambda record: record.sequence)


def leave_out(store: Path, sequence: int) -> None:
    """What a server does whose disk is full: the next record, which fitted, stands in the place of one that did not."""
    (block,) = (store / LEDGER).glob("*.blk")
    stored = records(store)
    stored[sequence - 1] = stored[sequence]._replace(sequence=sequence)
    block.write_bytes(b"".join(StreamBlock("LEDGER", int(block.stem)).write(stored)))
    (block.parent / "index.db").unlink(missing_ok=True)


def test_a_server_whose_copy_is_not_that_of_the_others_copies_anew_and_the_system_goes_on(place: Machine) -> None:
    first, second, third = (place.data / "nats" / f"store-{number}" for number in (1, 2, 3))
    log = place.data / "logs" / "nats-server-2.log"
    place.up("--nats-servers", "3")
    place.done("apply", "-f", place.documents)
    place.until_state(place.submit("echo before"), "succeeded")
    place.done("down")
    leave_out(second, 6)
    with log.open("ab") as output:
        output.write(FULL_DISK)
    assert [one.sequence for one, other in zip(records(second), records(first), strict=True) if one != other] == [6]

    place.up("--nats-servers", "3")
    place.until_state(place.submit("echo after"), "succeeded")
    place.until(lambda: place.parts()["nats-server-2"]["state"] == "running")
    place.until(lambda: len(records(second)) == len(records(first)) == len(records(third)))
    verified = subprocess.run((*HEADRACE, "audit", "verify", "--data", str(place.data)), check=False, timeout=PATIENCE)
    place.done("down")

    assert verified.returncode == 0
    assert records(second) == records(first) == records(third)
    assert "its copy of the streams has been removed: the others have everything, and it copies anew\n" in log.read_text()
