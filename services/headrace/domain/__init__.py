"""The one shared fold and the rules that every decider reads. Pure: no I/O, clock, randomness, logging, asyncio, float.

The question it answers: *given this prefix of the ledger, what is true, and what do the rules say about it?*

- `state` is everything that is true; `ledger` reads messages into it and says which are void; `fold*` change it, and nothing
  else does; `capacity` is the arithmetic of taking and giving back.
- `scopes` (R7, R17), `pending` and `ranking` (R15), `node_index` (over `node_section`,
  over `node_classes`) and `placement` (R3, R18, R20), `victims` (R23-R26),
  `admissible` (R13), `closings` (R11), `gates` with `calendar` and `meters` (R33), `growth` (R38), `explain` (R22) are the rules.
  They read, and return values.

Facts read: all. Facts written: none. It never decides: what to do about the truth is the business of `headrace.allocator`,
`headrace.preemption`, `headrace.admission` and `headrace.governance`.
"""
