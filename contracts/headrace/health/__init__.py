"""Health and metrics of a process over HTTP: whether it lives, whether it is ready, and its metrics.

The question it answers: *is this process well, and how does a machine find out?*

- `metrics` are the metrics of one process, each declared once: Prometheus reads them, OTLP sends them, computed when they are read.
- `health` holds the checks and the metrics of a process.
- `http` serves them: `/livez` (the event loop runs), `/readyz` (every check holds), `/metrics`.
- `config` reads the address from the environment, and writes the file by which Prometheus finds it.
- `addresses` has the paths and the files by which the addresses are found; `query` asks other processes for their health.

Services and node executors use the same. It does not know what is counted, and the work of a process never waits for it:
counting is an addition to a number, and everything else is computed on request.
"""
