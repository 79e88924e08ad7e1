"""The whole of Headrace on one machine: every part a child process, kept alive, on one data directory.

It answers the question: *what has to run here, in which order, and what happens when it dies?*

Facts read: none. Facts written: none.

- `installation` is the data directory: where everything lies, logins made once, settings kept for the next start.
- `network` has addresses and encryption: `ports`, `sockets`, `certificates` for TLS, `gateway` and `body_schema`, Envoy's configuration.
- `processes` keeps the parts running: `process_specs` has the command and environment of each, `child_processes` keeps them alive,
  `forked` and `fork_server` start those of Headrace from a process that has imported them. `log_file` has their output, `pidfile` the
  state of a running installation, `postgres` the database; `readiness` tells whether a part answers, and `job_isolation` whether jobs
  are kept apart.
- `cluster` writes the configuration for several machines. `nats` supervises NATS servers, and checks what their streams hold.
- `launcher` runs an installation: `up` starts all parts and stops them, `rolling_restart` restarts one after the other. `backup` saves
  and restores an installation, and `repair` repairs the ledger's stream.
- `api_away` calls *governance* while the gateway is away; `service_query` asks one service over NATS.

It never decides about jobs, never writes to the ledger, and leaves no process running when it ends.
"""
