"""The environment variables that tell a service where everything is, and the exit codes that tell its supervisor how it ended.

They stand apart from `process`, because commands that start nothing read them as well and need neither logs nor a connection.
"""

from __future__ import annotations

URL = "HEADRACE_NATS_URL"
USER = "HEADRACE_NATS_USER"
PASSWORD = "HEADRACE_NATS_PASSWORD"  # noqa: S105 - the name of the variable
DATA = "HEADRACE_DATA"
SYSTEM_USER = "HEADRACE_SYSTEM_USER"
SYSTEM_PASSWORD = "HEADRACE_SYSTEM_PASSWORD"  # noqa: S105 - the same; of the callout, where it ends connections
INSTANCE = "HEADRACE_INSTANCE"
"""What this process is called where its service runs more than once; it answers by that name."""
TURN = "HEADRACE_TURN"
"""`first` or `later`, where a service runs more than once: who begins where all start together. Not set: this is the only one."""
API = "HEADRACE_API"
"""Where *governance* serves the API, such as `unix:/path`; without it there is none."""
JOBS_TOGETHER = "HEADRACE_JOBS_TOGETHER"
"""Why only the owner and administrators can log in (jobs can read what the owner can). Empty: others can too."""
ENVIRONMENT = "HEADRACE_ENVIRONMENT"
"""A file with more of these variables, a line each, as `headrace config write` writes them; those that are set already count before it."""

STOPPED, FAILED, DEPOSED, BROKEN, DOUBTED = 0, 1, 3, 4, 5
