"""The lease state machine, pure: what happened goes in, what is to be done comes out.

The question it answers: *what does the node owe each of its leases now?*

- `vocabulary` has the words: events in, actions out, all plain values. Time is a value as well.
- `lease` is the life of one lease as a table of states and events; the ladder (R28) is a part of it.
- `node` holds the leases, compares orders and answers with them, and says when the node may report itself.

It never waits, reads a clock, touches a file or a process. Whatever comes late or twice has a defined result: nothing.
"""
