"""The node executor: the one process of Headrace on a machine with GPUs.

It answers the question: *what runs on this node, and how did it end?*

- Facts read: none. It receives orders (`hr.orders.<node>`), and asks for the whole of them regularly (`contracts.messages.orders`).
- Facts written, on `hr.ledger.node.<node>`: node.registered, node.stopped, node.checked, device.drained, device.returned,
  lease.started, lease.overran, lease.rung, lease.suspended, lease.resumed, checkpoint.registered, lease.ended.
- `core` decides, purely, what follows from an event: the life of a lease and its ladder (R28).
- `executor` performs the core's actions, with `launch` (environment, secrets, notice), `runtimes` (processes, containers), `devices`
  (GPUs), `enforcement` (each job's part of them), and `files` (directories, checkpoints, retention). `leases` is what it holds of each
  lease, `monitoring` what is measured meanwhile, and `system` what the operating system offers (accounts, control groups, C programs).
- `self_check` tests whether jobs can be started here, when a node that was set aside is asked to (R36).
- `reporting.link` is the connection to the bus; `reporting.ledger` writes the facts, in order, exactly once; `reporting.journal` has all
  that must be known after a crash of the executor.
- Every job is kept by a small process of its own (`runtimes.process`): killed, upgraded or restarted, the executor leaves jobs running,
  and takes them over again; `system.orphans` finds processes whose keeper was killed.

It never chooses what runs, never touches a device it was not told to use, and never calls a device free before it has looked. It imports
`headrace.contracts` and the packages beside it in that distribution only.
"""
