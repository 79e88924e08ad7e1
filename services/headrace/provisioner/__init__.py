"""Provisioner: creates the nodes that pools ask for, and ends them when they are no longer needed (R38).

The question it answers: *which instances are to be ordered by which offer, and which are to end, so that none is paid for in vain?*

Facts read: all. Facts written: `instance.ordered`, `instance.created`, `instance.refused`, `instance.released`, `instance.ended`,
`instance.orphan_ended`, `price.observed`.

`decide` is pure: orders, releases, and what is to be asked of providers. `reconcile` is pure: what a provider's list means. `acting`
performs what the ledger says is not yet done, and every answer becomes a fact; each call may be repeated, so a crash at any point
costs time only. `providers` has one module for each provider.

It never asks a provider for anything before the intent is in the ledger, ends no instance whose node holds a lease, and touches nothing
that does not have this installation's tag.
"""
