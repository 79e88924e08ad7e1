"""What a NATS server says of its disk."""

from __future__ import annotations

FULL_DISK = b"[ERR] JetStream failed to store a msg on stream 'CORE > LEDGER': write 4.blk: no space left on device\n"
