"""The connection to NATS that the client, the services and the nodes use: nats-py, made to reconnect after any error.

The question it answers: *how does a process stay connected to NATS for as long as it lives?*

- `reconnecting` is the client of nats-py without the cases in which it stops for ever, neither connected nor closed.
- `acknowledgement` is JetStream's answer to a publish.

Facts read: none. Facts written: none. It does not interpret messages, and it never gives up by itself.
"""
