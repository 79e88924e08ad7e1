"""The state as people may see it: the only place that decides what a tenant sees of itself, of pools and nodes, and of others.

The question it answers: *what may this user see of the fold?*

- `visibility` says who may see what; a user without a tenant (`ALL_TENANTS`) is the provider, who sees all. `pseudonyms` hides people who
  were erased.
- `job_index` and `history` find jobs quickly, `history_backfill` completes a history that began with a snapshot.
- `tenant_views`, `job_lines` and `audit_lines` show jobs, queues, pools, nodes and facts; `causes` links facts to what led to them.
- `state_at` is the state at an earlier point (`cursors` keeps those that were used), `replay` shows it whole, `difference` what changed;
  `queries` and `past_queries` make answers of them.

`state_at`, `history_backfill`, `queries` and `past_queries` read the ledger; the others are pure.

Facts read: all. Facts written: none. It never decides, and shows a tenant only totals of other tenants.
"""
