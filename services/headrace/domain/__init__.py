"""The one shared fold and the rules that every decider reads. Pure: no I/O, clock, randomness, logging, asyncio, float.

The question it answers: *given this prefix of the ledger, what is true, and what do the rules say about it?*

- Here stands what is true (`state`, and its parts by noun), the arithmetic on it (`scopes` R7 and R17, `capacity`, `supply`), what a
  snapshot makes of it (`snapshot`, `graph`, `columns`), and what is kept sorted, so that none looks at all (`pending` R15, `shelves` R25).
- `fold` reads messages into it, and nothing else changes it; `places` says where a replica may go; `queueing` who goes first, and
  whether at all; `reclaim` who yields; `why` why a job waits, and when it may start. They read, and return values.

Facts read: all. Facts written: none. It never decides: what to do about the truth is the business of `headrace.allocator`,
`headrace.preemption`, `headrace.admission` and `headrace.governance`.
"""
