"""Kubernetes: pods with the label `headrace.dev/queue` wait for a grant of Headrace, and run where it says. An optional part.

The question it answers: *what do pods, nodes and the ledger, as they are now, ask of the API server, and what do they tell the ledger?*

Facts read: none from the ledger itself; it asks as any node executor does what should run on a node, and as any user does what became of
jobs. Facts written: those of a node (`node.registered`, `node.checked`, `lease.started`, `lease.ended`), each in the name of a node of
Kubernetes, with the token of that node: for these nodes the kubelet runs jobs, and the bridge speaks for it.

`decide` is pure: it sees pods, nodes, what should run, and jobs, and names the steps that are due. `acting` takes them; each is
conditional on the version of the pod or on the node's last record, and may be repeated. Nothing is remembered between rounds that is not
in the ledger or on the API server, so a restart at any point, or a second bridge beside the first, costs time only.

It never binds a pod (the scheduler does, on the node that was granted), keeps no truth in annotations, and starts no pod without a lease.
"""
