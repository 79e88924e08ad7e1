"""What every part of Headrace, and everybody outside it, agrees on.

The question it answers: *what may be said, by whom, in which words?*

- `ids`, `amounts`, `durations`: the scalar values and how people write them.
- `documents`: what an administrator writes; `wishes`: what a submitter writes.
- `facts` by noun, `records` that carry them, `codec` that turns bytes into them and back.
- `writers`: the law of who may state which fact. `upcasters`: old versions made current.
- `reasons`: every refusal and every wait, in order of precedence.
- `subjects`: the names on the bus; `orders`, `queries`: the messages that are no facts.

It never holds state, never decides, never touches a clock, a socket or a file.
"""
