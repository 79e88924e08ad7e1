"""The whole of Headrace on one machine: every part a child process, kept alive, on one data directory.

It answers the question: *what has to run here, in which order, and what happens when it dies?*

Facts read: none. Facts written: none.

- `installation` is the data directory: where everything lies, logins made once, settings kept for the next start.
- `launcher` starts, watches, restarts and stops the processes: `up` puts all together, `process_specs` has the command and environment of
  each part, `child_processes` keeps them alive, `log_file` their output, `pidfile` the state of a running installation, `ports` and
  `sockets` their addresses, `postgres` the database, `gateway` and `body_schema` Envoy's configuration, `certificates` those for TLS,
  `readiness` tells whether a part answers, and `job_isolation` whether jobs are kept apart.
- `nats` supervises NATS servers, `repair` checks and repairs their streams, `backup` saves and restores an installation, and `cluster`
  writes the configuration for several machines and restarts parts one after the other.

It never decides about jobs, never writes to the ledger, and leaves no process running when it ends.
"""
