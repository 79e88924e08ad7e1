"""How a process lets itself be looked at: is it alive, is it ready, and its figures, over HTTP.

The question it answers: *is this process well, and how would a machine know?*

- `figures` are the figures of one process, each declared once: what Prometheus is given, what OTLP sends, read when somebody asks.
- `health` is what a process says of itself: its checks and its figures.
- `page` serves them: `/livez` (the loop turns), `/readyz` (every check holds), `/metrics`.
- `place` says where, from the environment, and leaves a note for Prometheus of where that is.

Services and node executors use the same. It knows nothing of what is counted, and nothing on the way of a job waits for it:
a count is an addition to a number, and everything else is worked out when it is asked for.
"""
