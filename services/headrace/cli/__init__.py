"""The `headrace` command: how people and scripts use Headrace from a terminal.

The question it answers: *how does one do this by hand?*

Facts read: none. Facts written: none; it submits and asks through `headrace.client`, as every other client does.

- `main` puts the commands together. It is the only place where failures become one line and an exit code: 0 done, 1 refused or
  failed, 2 not understood.
- `jobs`: submit, list, cancel. `resources`: documents, queues, pools, nodes, what-ifs and simulations. `identities`: tokens, users,
  tenants.
- `reports`: usage and statements. `history`: audit log, past states, verification, seals, archive.
- `operations`: up and down, status, contexts, restart, cluster configuration, backup, repair.
- `arguments` has the options that commands share, `whole_ledger` reads all records, and `output` has the form of answers:
  aligned for people, JSON for programs.

It decides nothing, stores nothing, and needs no right that its user does not have.
"""
