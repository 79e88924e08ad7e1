"""The state as people may see it: the one place that decides what a tenant is shown of itself, of pools and nodes, and of others.

The question it answers: *what does this asker get to see of the fold?*

- `visibility` says who may see what; an asker without a tenant (`EVERYBODY`) is the provider, who sees all.
- `roster` and `history` find jobs quickly; `shown` and `lines` show them; `past` is the state as it was, `replay` shows it whole,
  `difference` what changed; `queries` and `then` put them together into answers. `stories` makes a history whole that began late.
  `past`, `stories`, `queries` and `then` read the ledger; the others are pure.

Facts read: all. Facts written: none. It never decides, and shows a tenant nothing of another but totals.
"""
