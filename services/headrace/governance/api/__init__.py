"""The API: requests of administrators and users over gRPC, and over HTTP through the gateway in front.

The question it answers: *what does this caller request, are they allowed to, and what is the answer at a known record??*

- `server` serves on a socket; `serve` runs it in the process of *governance*; every call passes the `interceptor`, which authenticates the
  caller, checks the table of roles, waits for `min_sequence`, and turns errors into a status with a stable reason (`errors`, `statuses`).
- `context` has the dependencies of the services: the fold, the decider behind it, the index of jobs, the bus.
- `document_service` serves all kinds of documents; `resource_kinds` describes the kinds; `accounts`, `apply`, `queues`, `nodes`, `jobs`,
  `submit` (with `submit_batcher`, `used_ids`, `admission_watermark`), `watch`, `usage`, `history`, `whatif_service` (with `slots`),
  `tokens`, `erasure` and `system` are the other services; `call_metrics` counts calls.
- `names`, `filters`, `filter_fields`, `paging`, `messages`, `job_messages` and `masks` are pure: names of resources, the language of
  filters, pages, conversion between protobuf and documents.

Facts read: all, by the fold. Facts written: none of its own; it hands operations to the decider of *governance*, and submits on SUBMIT.

It makes no decisions about documents or jobs, and shows each caller only what `headrace.views` allows.
"""
