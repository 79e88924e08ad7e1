"""The API: what administrators and users ask over gRPC, and over HTTP through the gateway in front.

The question it answers: *what does this caller want, may they, and what is the answer as of which record?*

- `server` puts the services on a socket; `door` is the one way in: it finds out who calls, asks the table of roles, waits for
  `min_sequence`, and turns whatever goes wrong into a status with a stable reason (`faults`).
- `office` is what the services work with: the fold, the decider behind it, the roster of jobs, the bus.
- `written` serves the kinds of documents, all alike; `kinds` says how each is named and shown; `accounts`, `applying`, `queues`, `nodes`,
  `jobs`, `submitting` (with `gathering`), `watching`, `books`, `history`, `supposing`, `tokens`, `erasing`, `system` are the services that
  are not like any other.
- `names`, `filters`, `paging`, `messages`, `masks` are pure: names of resources, the language of filters, pages, protobuf and documents.

Facts read: all, by the fold. Facts written: none of its own; it hands wishes to the decider of *governance*, and submits on SUBMIT.

It decides nothing about documents or jobs, and shows nobody more than `headrace.views` lets them see.
"""
