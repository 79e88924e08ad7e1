"""The log and the connection to NATS: how bytes get from one process to another, and how a process starts and stops.

The question it answers: *what has been written, in which order, and how do I write the next thing?*

- `log` defines a log; `nats.jetstream` (with `nats.jetstream_reader`) and `memory` are its two implementations, with one test suite.
- `follower` reads and folds, once per process; `loop` is the one service loop: decide at the tip, append; `writer_chain` appends the
  records of one writer, each conditional on its last; `leader_election` chooses the instance that decides if a service runs twice;
  `log_clock` is the time that a writer states.
- `nats.object_store` holds what is too large for a message; `text_encryption` encrypts the texts of jobs.
- `nats.streams`, `nats.permissions` and `nats.cluster_routes` are the configuration of the NATS servers; `nats.stream_copy` copies a
  stream.
- `nats.connection` opens a connection of a service (`headrace.nats_client`) and logs what happens to it; `notifier` wakes one waiting
  coroutine.
- `process` runs a service as its `variables` say; `heartbeat` announces it, `niceness` sets its priority, `telemetry` sends logs, traces
  and metrics.

It never looks inside a fact and never decides. All asynchronous code of Headrace's services starts here.
"""
