"""Who may connect to NATS: the server asks, and this answers with a short-lived permission for one user and one account.

The question it answers: *with which account and which permissions may the bearer of this token connect?*

- `questions` decodes the server's authorization requests and encodes the responses; `permits` maps a caller to permissions on the bus.
- `directory_follower` folds governance's records of tenants, users, groups and tokens, read from its subject of the ledger alone.
- `connection_limits` bounds the connections per bearer and per tenant; `server_status` reads the state of the NATS servers.
- `eviction` ends the connections whose token is no longer valid; `service` is the process.

Facts read: `token.*`, `tenant.*`, `user.*`, `group.*`. Facts written: none.

It stores nothing and runs in two instances; both answer, and the server takes the first answer. While neither runs, existing
connections and the services, which have static keys, continue. It refuses every caller that it cannot check, and answers only the server.
"""
