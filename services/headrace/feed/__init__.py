"""What others see of the ledger: orders for nodes, facts for tenants, answers to queries.

The question it answers: *what does this node have to do, and what may this tenant know?*

Facts read: all. Facts written: none; everything it publishes is derived and can be published again.

- `orders` and `sealed_text_cache`: what a node has to run and to stop, with the jobs' texts opened. `public_facts` and `queue_heads`: the
  messages on FEED, one for each tenant that may know, without other tenants' names. These are pure, except that `sealed_text_cache` reads
  the log.
- `publisher` writes `outgoing_message`s to FEED, `standby_buffer` holds what another instance may not have published, `metrics` has the
  figures of the installation, and `service` follows the ledger and connects the rest to the bus: orders first, FEED after.

Two instances may run; which one publishes is settled as for the services that decide (`bus.leader_election`). It never decides, keeps no
state that is not derived from the ledger, and shows a tenant only totals of other tenants.
"""
