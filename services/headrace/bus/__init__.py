"""The log and the wire: how bytes get from one process to another, and how a process starts and stops.

The question it answers: *what has been written, in which order, and how do I write the next thing?*

- `log` says what a log is; `jetstream` (with `jetstream_reader`) and `memory` are the two that there are, behind one test suite.
- `chain` appends the records of one writer, each conditional on its last; `loop` is the one service loop:
  read, fold, decide at the tip, append; `turn` says whose turn that is where a service runs twice.
- `objects` are what is too large for a message; `sealing` keeps the texts of jobs.
- `streams` and `accounts` say what the NATS server has to be.
- `connection` comes back for ever and asks cheaply, `guard` makes it safe against hostile messages, `wakeup` wakes one sleeper.
- `process` runs a service, as its `variables` say; `telemetry` is its logs and traces.

It never looks inside a fact and never decides. Everything asynchronous in Headrace's services starts here.
"""
