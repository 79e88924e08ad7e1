"""The books: who used how much, when, and on whose reservation, exactly; and an independent copy of every record.

The question it answers: *what was used, by whom, reserved or borrowed, and what was lost?*

- `meter` splits one key of one policy into reserved and borrowed at every instant (R17), `meters` has all of them; pure.
- `books` turns records into changes of rows (R25, R37), `sums` into sums by day, `tariffs` into prices and their history; pure.
- `store` writes and reads them in PostgreSQL; `schema` brings the database up to date; `sql/` has every statement.
- `usage` answers what people ask: `reading` reads for any `periods`, `tally` adds up, `costs` is the one place where money is rounded.
- `service` follows the ledger, a stretch at a time (`stretches`), and never loses its place.

Facts read: all, through the shared fold. Facts written: none. It never decides, and keeps no second truth about who holds
what: of a lease it adds only when, by the node's own clock.
"""
