"""Who may connect to NATS: the server asks, and this answers with a short-lived permission for one user and one account.

The question it answers: *somebody wants to connect with this token; as whom, and what may they say and hear?*

- `questions` reads what the server asks and writes what it is told; `permits` says what a caller may do on the bus.
- `following` keeps what governance has written of tenants, users, groups and tokens, read from its subject of the ledger alone.
- `eviction` ends the connections of whose token counts no more; `service` is the process.

Facts read: `token.*`, `tenant.*`, `user.*`, `group.*`. Facts written: none.

It keeps no state of its own and is run twice; both answer, and the server takes the first answer. While neither runs the services, which
have static keys, and everybody who is connected go on. It never lets in whom it cannot check, and answers nobody but the server.
"""
