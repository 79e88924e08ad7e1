"""The one shared fold and the rules that every decider reads. Pure: no I/O, clock, randomness, logging, asyncio, float.

The question it answers: *given this prefix of the ledger, what is true, and what do the rules say about it?*

Packages; each imports only packages before it:

- `model`: the entities (jobs, policies, nodes, requests), plain data.
- `indexes`: what is kept sorted, so that a decision does not look at everything (`pending` R15, `node_index` R20, `running_index` R25).
- `state`: the whole of what is true, and the arithmetic on it (`quota` R7 and R17, `capacity`, `supply`, `meters` R33).
- `fold` reads messages into the state, and nothing else changes it; `snapshots` makes bytes of it and back.
- `placement` (where a replica may go), `queueing` (which job is first, and whether it may start), `backfill` (what is kept for jobs that
  have waited long), `preemption` (which jobs yield), `explain` (why a job waits, and until when). They read, and return values.

Facts read: all. Facts written: none. It never decides: what to do about the truth is the business of `headrace.allocator`,
`headrace.preemption`, `headrace.admission` and `headrace.governance`.
"""
