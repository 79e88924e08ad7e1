"""The `headrace` command: how people and scripts use Headrace from a terminal.

The question it answers: *how does one do this by hand?*

Facts read: none. Facts written: none; it submits and asks through `headrace.client`, as every other client does.

- `main` puts the commands together. It is the only place where failures become one line and an exit code: 0 done, 1 refused or
  failed, 2 not understood.
- Jobs: `submit`, `jobs`, `cancel`, `explain_view`. Supply: `supply` (queues, pools, nodes), `approve`. Documents: `documents`,
  `whatif`, `simulate`.
- Accounting: `books` (usage), `statement`. History: `audit`, `replay`, `verify`, `seals`, `whole_ledger`. Persons and tokens:
  `token`, `user`, `tenant`.
- Operations: `up` (and down), `tls_options`, `status`, `service_status`, `restart`, `cluster_config`, `archive`, `purge`,
  `backup`, `repair`.
- `arguments` has the options that commands share; `tables`, `formatting`, `terminal` and `output_file` have the form of answers:
  aligned for people, JSON for programs.

It decides nothing, stores nothing, and needs no right that its user does not have.
"""
