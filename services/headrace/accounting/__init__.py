"""The books: who used how much, when, and on whose reservation, exactly; and an independent copy of every record.

The question it answers: *what was used, by whom, reserved or borrowed, and what was lost?*

- `books`, pure: `meter` splits one key of one policy into reserved and borrowed at every time (R17), `meters` has all of them; `books`
  turns records into changes of rows (R25, R37), `attempts` and `charging` decide from when to when a lease is charged, `rollups` sums by
  hour and day, `aggregate` over a query's periods, `tariffs` has prices and their history, `charges` the amounts of a bill, and `costs` is
  the only place where money is rounded.
- `storage`: `store` writes and reads the books in PostgreSQL; `schema` brings the database up to date; `sql/` has every statement;
  `batching` forms transactions.
- `reports` answers queries: `usage_reader` reads any `periods`; `usage`, `invoice`, `focus` and `history` are the answers.
- `sampling` receives the samples of nodes, `books/utilization` adds them up, `storage/load_store` writes the sums, `reports/load_reader`
  reads them.
- `service` follows the ledger, a batch of messages at a time, and never loses its position.

Facts read: all, through the shared fold. Facts written: none. It never decides, and stores no second truth about who holds what: of a
lease it adds only when, by the node's own clock.
"""
