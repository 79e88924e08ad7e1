"""State machine of leases on a node, pure: events go in, actions come out.

It answers the question: *what does the node owe each of its leases now?*

- `vocabulary` has the events and the actions, all plain values. Time is a value as well.
- `phases` and `lease` are the life of one lease as a table of phases and events; the ladder (R28) is a part of it; `suspension` is the
  part off the devices.
- `device_holdings` counts what is taken of each device.
- `node` holds the leases, compares orders and answers with them, and decides when the node may register.
- `inbox` passes events to the node one at a time.

The core never waits, reads a clock, or touches a file or a process. Events that come late or twice have no effect.
"""
