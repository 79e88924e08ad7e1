"""The interface between all parts of Headrace, and to other programs.

The question it answers: *what may be said, by whom, in which words?*

- `values`: amounts, durations, ids, isolation levels, MIG slices, reasons, and how people write them.
- `documents`: what an administrator writes.
- `facts`: the facts by noun, the records that carry them, which service may state which fact, and how old versions become current.
- `messages`: submissions, orders, queries and answers: the messages that are not facts.
- `transport`: NATS subjects, the codec that decodes and encodes messages, server addresses, TLS.
- `api`: the modules generated from `contracts/proto`. `schemas`: JSON schemas and OpenAPI, generated from the above.

It never holds state, never decides, and never uses a clock, a socket or a file.
"""
