"""The connection to NATS that the client, the services and the nodes use: requests, conditional appends, TLS, and reconnecting.

The question it answers: *how does a process stay connected to NATS for as long as it lives, and how does it know that something is stored?*

- `hardened_client` is the client of nats-py without the cases in which it stops for ever or fails on hostile messages. It is the only
  module that overrides or replaces private parts of nats-py; `raw_message` is a message as it arrives there.
- `connection` opens a connection with a login, reconnects without end, and has requests with a reply; `errors` are its errors.
- `append` stores a message, on condition of the subject's last one; `acknowledgement` is JetStream's answer to a publish.

Facts read: none. Facts written: none. It does not interpret messages, and it never gives up by itself.
"""
