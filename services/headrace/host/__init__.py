"""Services in one process: `python -m headrace.host governance feed`.

The question it answers: *which services share a process, and how is it started?*

- `__main__` runs the services that it is told, over one follower (`headrace.service.hosting`).
- `layouts` says which services share a process in each layout of an installation.

It reads and writes no facts. Services that share a process share the fold and nothing else: each keeps its login, its chain of records, its
health page and its leadership. It never lets a service that has to stand apart share: the books and audit read at a pace of their own.
"""
