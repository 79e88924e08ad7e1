"""The `headrace` command: what people and scripts say to Headrace, and how it answers them.

The question it answers: *how does one do this by hand?*

Facts read: none. Facts written: none; it submits and asks through `headrace.client`, like everybody.

- `main` puts the commands together and is the one place where failures become one line and an exit code: 0 done, 1 refused or
  failed, 2 not understood.
- The commands, by noun: `system` (up, down, status), `submission`, `jobs`, `supply` (queues, pools, nodes), `documents`, `books`, `play`.
- `arguments` is how they are spelt, `tables` and `shown` how answers look: aligned for people, JSON for programs.

It decides nothing, keeps nothing, and needs no right that its user does not have.
"""
