"""The node executor: the one process of Headrace on a machine with GPUs.

The question it answers: *what runs on this node, and what became of it?*

- Facts read: none. It is told what to run (`hr.orders.<node>`), and asks for all of it now and then (`contracts.messages.orders`).
- Facts written, on `hr.ledger.node.<node>`: node.registered, node.stopped, node.checked, device.drained, device.returned,
  lease.started, lease.overran, lease.rung, lease.suspended, lease.resumed, checkpoint.registered, lease.ended.
- `core` decides, purely, what follows from what happened: the life of a lease and its ladder (R28).
- `executor` does what the core asks for, with `runtimes` (processes), `devices` (GPUs), `enforcement` (what keeps it to its part),
  `environment`, `workspace` (and `spares`), `checkpoints`, `outputs`.
- `checking` tries whether jobs can be started here, when a node that was set aside is asked to (R36).
- `link` is the wire; `ledger` states the facts, in order, exactly once; `journal` has all that must be known when the executor has died.
- Every job is kept by a small process of its own (`runtimes.process`): killed, upgraded or restarted, the executor leaves jobs running,
  and takes them over again; `leftovers` finds what ran on without anybody.

It never chooses what runs, never touches a device it was not told to use, and never calls a device free before it has looked.
It imports `headrace.contracts` only.
"""
