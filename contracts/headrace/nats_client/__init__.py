"""The connection to NATS that everybody of ours has: nats-py, made to come back whatever happens to it.

The question it answers: *how does a process stay in touch with the bus for as long as it lives?*

- `returning` is the client of nats-py without the ways in which it goes silent for ever.
- `acknowledgement` is what JetStream answers to who publishes.

Facts read: none. Facts written: none. It knows nothing of what is said over it, and never gives up by itself.
"""
