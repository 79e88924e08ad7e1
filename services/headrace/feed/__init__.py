"""What others get to see of the ledger: orders for nodes, facts for tenants, answers for whoever asks.

The question it answers: *what does this node have to do, and what may this tenant know?*

Facts read: all. Facts written: none; everything it says is derived and can be said again.

- `orders` and `texts`: what a node is to run and to stop, with the jobs' texts opened. `facts_out` and `heads`: the messages on FEED, one
  for each tenant that may know, without other tenants' names. All of these are pure but for what `texts` reads.
- What it answers to `hr.query.feed.…`, and who may see what, is in `headrace.views`.
- `outlet` publishes FEED, `untold` keeps what another one may not have told, `service` follows the ledger and connects the rest to the
  bus: orders first, FEED after.

It may run twice; who tells is settled as for the services that decide (`bus.leader_election`). It never decides, keeps no second truth,
and shows a tenant nothing of another but totals.
"""
